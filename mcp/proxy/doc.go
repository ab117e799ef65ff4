// Package proxy stands between an agent and its MCP servers: streamable HTTP
// on the agent's side; on the other a server's stdin and stdout, or HTTP. It
// forwards the bytes it received, records every message, and reads only a copy of
// them.
//
// Both sides are hostile. The agent may send anything to the HTTP side, and a
// server may write anything to its stdout or into a response; what either may cost
// the runner in memory, processes, goroutines and time is bounded by [Limits].
//
// Both eras of the protocol are served on one endpoint, told apart by request as
// basic/versioning of the 2026-07-28 specification says.
//
// For a server on stdio the proxy is the HTTP server that the specification
// describes: up to 2025-11-25 a session is one process of its own; from 2026-07-28
// there are no sessions, and all requests to one server share a process. A server of
// the HTTP+SSE transport of 2024-11-05 is served so too: a stream and its endpoint
// look like a process ([transport.Upstream]).
//
// A server of streamable HTTP is the server that the agent talks to. Requests and
// responses pass as they are, with their headers, statuses and bytes; sessions,
// streams and their resumption are the server's own, and so is what happens to what
// nobody can read. What the proxy adds are comments in a silent stream, and an
// answer where the server gave none.
//
// Two things are ever changed: a list of tools, of which those are cut out that the
// agent is not to see ([Server.Tools]), and a tool's result, to which what an attacker
// says is added where the eval wants that ([Server.Inject]). Then the server's message
// and the agent's are both on record.
//
// Events it records, by [evidence.Event] kind:
//
//	stdout_noise  a line of a server's stdout that is no JSON-RPC message
//	server_exit   a server's process or HTTP+SSE session ended, or did not start
//	limit         a bound was reached and what was given up for it
//	gap           what was sent cannot be read as one meaning
//	cancelled     the agent closed the stream of a 2026-07-28 request
//	undelivered   a server's message that no stream of the agent could take, or
//	              an agent's that its server did not take
//	upstream      a connection to a server that speaks HTTP failed, and how
//	redirect      a server sent a request to another origin, which was not followed
//	unauthorized  a server answered 401 or 403
//	injection     what an attacker says was added to a result
//
// Up to 2025-11-25 a stream that broke can be resumed by Last-Event-ID. From
// 2026-07-28 the headers that mirror arguments (Mcp-Param-*) are held against
// them, for the tools whose schemas a tools/list has shown.
//
// It is no httputil.ReverseProxy: a message is within its limits and on record before any
// byte of it reaches the other side, also where it is one event of a stream.
//
// Non-goals: it does not judge, pair or count calls (package capture does), does
// not check results against schemas.
package proxy
