// Package mcpproxy stands between an agent and its MCP servers: streamable HTTP
// on the agent's side, a server's stdin and stdout on the other. It forwards the
// bytes it received, records every message, and reads only a copy of them.
//
// Both sides are hostile. The agent may send anything to the HTTP side and the
// server may write anything to its stdout; what either may cost the runner in
// memory, processes, goroutines and time is bounded by [Limits].
//
// Both eras of the protocol are served on one endpoint, told apart by request as
// basic/versioning of the 2026-07-28 specification says. Up to 2025-11-25 a
// session is one process of its own. From 2026-07-28 there are no sessions, and
// all requests to one server share a process.
//
// Events it records, by [evidence.Event] kind:
//
//	health        what was said while a server was probed
//	stdout_noise  a line of a server's stdout that is no JSON-RPC message
//	server_exit   a server's process ended, or did not start
//	limit         a bound was reached and what was given up for it
//	gap           the agent sent something that cannot be read as one meaning
//	cancelled     the agent closed the stream of a 2026-07-28 request
//	undelivered   a server's message that no stream of the agent could take, or
//	              an agent's that its server did not take
//
// Up to 2025-11-25 a stream that broke can be resumed by Last-Event-ID. From
// 2026-07-28 the headers that mirror arguments (Mcp-Param-*) are held against
// them, for the tools whose schemas a tools/list has shown.
//
// Non-goals: it does not judge, pair or count calls (package capture does), does
// not check results against schemas, and does not speak the HTTP+SSE transport of
// 2024-11-05.
package mcpproxy
