// Package results is what a run amounts to: results.json in waza's format, the
// table at a run's end, and the exit code.
//
// It computes from records alone: no file is read, no clock asked, and chance is
// seeded, so the same records give the same bytes. It grades nothing.
//
// Keys that waza does not have stand beside its own: outcome, reason and earlier
// attempts of a run; source, mcp_server and outcome of a tool call; the number of
// MCP calls and the servers they went to.
package results
