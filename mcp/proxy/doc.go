// Package proxy implements the MCP proxy between an agent and its servers. Agents, and the runner
// in its own sessions, connect over streamable HTTP; servers are reached over stdio or HTTP. The
// proxy forwards the bytes that it receives, records every message, and parses only copies of them.
//
// Both sides are hostile. The agent may send anything over HTTP, and a server may write
// anything to its stdout or into a response. [Limits] bounds the memory, processes,
// goroutines and time that they can use.
//
// One endpoint serves both eras of the protocol, which are told apart by request as
// described in basic/versioning of the 2026-07-28 specification.
//
// For a server on stdio the proxy is the HTTP server that the specification describes: up
// to 2025-11-25 each session has its own process; from 2026-07-28 there are no sessions,
// and all requests to a server share a process. A server on the HTTP+SSE transport of
// 2024-11-05 is handled like a process too ([transport.Upstream]).
//
// For a server on streamable HTTP, requests and responses pass through unchanged: headers,
// status and body. The server implements sessions, streams, resumption and the handling of
// invalid messages itself. The proxy adds comments to idle streams, and an error response
// if the server sends none.
//
// The proxy changes two kinds of messages: it removes tools that are hidden from the agent
// from tool lists ([Server.Tools]), and adds an attacker's text to tool results if the eval
// asks for that ([Server.Inject]). It then records both the message from the server and the
// one sent to the agent.
//
// It also applies the faults that an eval requests for the agent's calls ([Server.Fault]), in the
// same way for all transports.
//
// It records events of these kinds ([evidence.Event]):
//
//	stdout_noise  a line on a server's stdout that is not a JSON-RPC message
//	server_exit   a server's process or HTTP+SSE session ended or failed to start
//	limit         a limit was reached, and what was dropped
//	gap           a message is unreadable, ambiguous or not UTF-8
//	cancelled     the agent closed the stream of a 2026-07-28 request
//	undelivered   a message from the server had no stream to the agent, or the
//	              server did not accept a message from the agent
//	upstream      a connection to a server that speaks HTTP failed
//	redirect      a server redirected a request to another origin; not followed
//	unauthorized  a server responded with 401 or 403
//	injection     an attacker's text was added to a result
//	fault         a fault was made of a call
//
// Up to 2025-11-25 a broken stream can be resumed with Last-Event-ID. From 2026-07-28 the
// headers that mirror arguments (Mcp-Param-*) are validated for tools whose schemas were
// seen in a tools/list result.
//
// The package does not use httputil.ReverseProxy: every message, including each event of a
// stream, is checked against the limits and recorded before any byte of it is forwarded.
//
// The package does not evaluate, pair or count calls (see package capture), and does not
// validate results against schemas.
//
// # Types
//
// [Proxy] serves one trial, with a server for each MCP server. The handler of a server is
// one of these:
//
//   - bridge, for a server on stdio or HTTP+SSE. A stdioSession is a conversation with one
//     process. An exchange holds the requests of one POST until they are answered. The
//     answers, and messages that the server sends by itself, are sent through an
//     agentStream, which has a queue and, in sessions, a replayBuffer from which a broken
//     stream is resumed. The file route.go selects the stream of each message.
//   - passThrough, for a server on streamable HTTP. A proxiedRequest is one HTTP request
//     from the agent. httpSessions tracks the unanswered requests of each httpSession.
//
// Each server has a second handler for the runner's own sessions ([Proxy.Own]): the same, without
// hidden tools, injections and the agent's limits. After [Proxy.Release] the runner continues the
// agent's last conversation with a process ([Proxy.Attach]).
//
// Both kinds of handlers read an HTTP request into an inbound and its messages into an envelope,
// and count traffic against the server's allowance.
package proxy
