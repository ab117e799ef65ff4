// Package results computes the figures of a run, results.json in waza's format, and
// compares runs.
//
// It computes from records alone: no file is read, no clock asked, and chance is
// seeded, so the same records give the same bytes. It grades nothing. What calls and
// agents said is held for one trial at a time, and results take a bounded part of it.
//
// Keys that waza does not have stand beside its own: outcome, reason and earlier
// attempts of a run; source, mcp_server and outcome of a tool call; the number of
// MCP calls and the servers they went to; how servers fared; pass_at_k, consistency,
// and the means of score, selection and params.
package results
