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
// For a server on streamable HTTP, requests and responses pass through as they are, with
// their headers, statuses and bytes. Sessions, streams and their resumption are the
// server's own, and so is its answer to unreadable messages. The proxy adds comments to a
// silent stream, and an answer if the server gave none.
//
// The proxy changes two kinds of messages: it removes tools that the agent must not see
// from lists ([Server.Tools]), and adds an attacker's text to results of tools if the
// eval asks for that ([Server.Inject]). Then both the server's message and the agent's
// are recorded.
//
// Events it records, by [evidence.Event] kind:
//
//	stdout_noise  a line of a server's stdout that is no JSON-RPC message
//	server_exit   a server's process or HTTP+SSE session ended, or did not start
//	limit         a limit was reached, and what was dropped
//	gap           a message is unreadable, or can be read in two ways
//	cancelled     the agent closed the stream of a 2026-07-28 request
//	undelivered   a server's message that no stream of the agent could take, or
//	              an agent's that its server did not take
//	upstream      a connection to a server that speaks HTTP failed, and how
//	redirect      a server sent a request to another origin, which was not followed
//	unauthorized  a server answered 401 or 403
//	injection     an attacker's text was added to a result
//
// Up to 2025-11-25 a broken stream can be resumed by Last-Event-ID. From 2026-07-28 the
// headers that mirror arguments (Mcp-Param-*) are compared with the arguments, for tools
// whose schemas a tools/list has shown.
//
// It does not use httputil.ReverseProxy: every message, also one that is an event of a
// stream, is checked against the limits and recorded before any byte of it reaches the
// other side.
//
// The package does not judge, pair or count calls (package capture does), and does not
// check results against schemas.
//
// # Types
//
// [Proxy] serves one trial, and has a server for each MCP server. Its handler is one of two:
//
//   - bridge, for a server on stdio or HTTP+SSE. A stdioSession is one conversation with
//     one process. An exchange is the requests of one POST that wait for their answers;
//     the answers, and the server's own messages, leave through an agentStream, which has a
//     queue of messages and, in sessions, a replayBuffer from which a broken stream is
//     resumed. route.go decides which stream a message of the server's belongs to.
//   - passThrough, for a server on streamable HTTP. A proxiedRequest is one HTTP request of
//     the agent's. The httpSessions remember which requests of each httpSession are not
//     answered yet.
//
// Both read an HTTP request into an inbound, its messages into an envelope, and count what
// crosses against the server's allowance.
package proxy
