package proxy

import (
	"fmt"
	"mime"
	"net"
	"net/http"
	"strings"

	"github.com/waza-isolate/waza/evidence"
	"github.com/waza-isolate/waza/mcp/sse"
	"github.com/waza-isolate/waza/mcp/transport"
)

// endpoint is the URL path of the MCP endpoint of every server.
const endpoint = "/mcp"

// Headers of streamable HTTP.
const (
	headerSession = "Mcp-Session-Id"
	headerVersion = "Mcp-Protocol-Version"
	headerMethod  = "Mcp-Method"
	headerName    = "Mcp-Name"
)

// maxUserAgent is the number of bytes of a User-Agent that are recorded.
const maxUserAgent = 256

// Handler serves the MCP endpoints of all servers, selected by Host. If only names a
// server, requests whose Host names no server go to that one, provided that the Host is
// local, as for a server on loopback (2025-11-25 basic/transports), or that the server
// speaks HTTP and so checks the Host itself.
func (p *Proxy) Handler(only string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s := p.servers[hostName(r.Host)]
		alone := p.named(only)
		if s == nil && alone != nil && (transport.IsLocal(r.Host) || alone.Streamable()) {
			s = alone
		}
		if s == nil {
			http.Error(w, fmt.Sprintf("No MCP server is called %q here.", r.Host), http.StatusMisdirectedRequest)
			return
		}
		s.serveHTTP(w, r)
	})
}

// named returns the server with a name, or nil.
func (p *Proxy) named(name string) *server {
	for _, s := range p.servers {
		if s.Name == name {
			return s
		}
	}
	return nil
}

func refuseMethod(w http.ResponseWriter, allow string) {
	w.Header().Set("Allow", allow)
	http.Error(w, "The endpoint does not know this method.", http.StatusMethodNotAllowed)
}

// hostName returns the server name in a Host header, in lower case and without port 80.
func hostName(host string) string {
	return strings.ToLower(strings.TrimSuffix(host, ":80"))
}

// isListener reports whether host is the address that the request was received on.
func isListener(r *http.Request, host string) bool {
	addr, ok := r.Context().Value(http.LocalAddrContextKey).(net.Addr)
	return ok && strings.EqualFold(host, addr.String())
}

// accepts holds the media types that the agent accepts in response to a POST.
type accepts struct{ json, stream bool }

// parseAccept parses Accept headers leniently: without a header, both types are accepted.
func parseAccept(values []string) accepts {
	all := strings.Join(values, ",")
	if strings.TrimSpace(all) == "" {
		return accepts{json: true, stream: true}
	}
	var a accepts
	for part := range strings.SplitSeq(all, ",") {
		kind, _, err := mime.ParseMediaType(part)
		if err != nil {
			continue
		}
		a.json = a.json || kind == "application/json" || kind == "application/*" || kind == "*/*"
		a.stream = a.stream || kind == sse.ContentType || kind == "text/*" || kind == "*/*"
	}
	return a
}

func peerOf(r *http.Request) evidence.Peer {
	agent := r.UserAgent()
	return evidence.Peer{Addr: r.RemoteAddr, UserAgent: agent[:min(len(agent), maxUserAgent)]}
}
