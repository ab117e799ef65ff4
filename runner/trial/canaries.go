package trial

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"

	"github.com/waza-isolate/waza/evidence"
	"github.com/waza-isolate/waza/evidence/secret"
	"github.com/waza-isolate/waza/internal/jsontext"
	"github.com/waza-isolate/waza/mcp/jsonrpc"
	"github.com/waza-isolate/waza/runner/plan"
)

// maxSeen is how many matches a trial records per canary and way out. The limit is per canary
// so that matches of one do not hide those of another.
const maxSeen = 100

// canaryScanner looks for canaries in what leaves a trial's containers, and records those on
// their way to where they are not allowed. Requests to models are not scanned, since they
// contain whatever the agent works with. A nil scanner finds nothing.
type canaryScanner struct {
	set     *secret.Canaries
	rec     eventRecorder
	allowed map[string][]string // servers and hosts that each canary may reach

	servers []string    // all servers of the trial
	secrets *secret.Set // replaced in excerpts

	mu   sync.Mutex
	seen map[matchKey]int // guarded by mu
}

// matchKey is the key by which matches are counted.
type matchKey struct{ canary, how string }

// eventRecorder records events.
type eventRecorder interface{ Event(evidence.Event) }

// scannerFor returns the scanner of a trial, or nil if the trial has no canaries.
func scannerFor(t *plan.Trial, rec *evidence.Recorder, secrets *secret.Set) (*canaryScanner, error) {
	if len(t.Canaries) == 0 {
		return nil, nil
	}
	l := &canaryScanner{rec: rec, allowed: map[string][]string{}, secrets: secrets, seen: map[matchKey]int{}}
	for _, s := range t.Servers {
		l.servers = append(l.servers, s.Name)
	}
	var values []secret.Canary
	for _, c := range t.Canaries {
		values = append(values, secret.Canary{Name: c.Name, Value: c.Value})
		l.allowed[c.Name] = slices.Clone(c.MayReach)
		for _, p := range c.Planted {
			if p.Server != "" {
				l.allowed[c.Name] = append(l.allowed[c.Name], p.Server)
			}
		}
	}
	var err error
	l.set, err = secret.NewCanaries(values...)
	return l, err
}

// recordingTo returns a scanner for the same canaries with new counters and another recorder.
func (s *canaryScanner) recordingTo(rec eventRecorder) *canaryScanner {
	if s == nil {
		return nil
	}
	return &canaryScanner{set: s.set, rec: rec, allowed: s.allowed, servers: s.servers, secrets: s.secrets, seen: map[matchKey]int{}}
}

// watchedWays returns the ways out on which a trial's canaries are looked for.
func watchedWays(t *plan.Trial) []string {
	switch {
	case len(t.Canaries) == 0:
		return nil
	case !t.Isolated():
		return []string{evidence.ByArgument}
	}
	return []string{evidence.ByArgument, evidence.ByDNS, evidence.ByEgress}
}

// frame scans a message that reached a server.
func (s *canaryScanner) frame(f evidence.Frame, number int64) {
	if s == nil || f.Dir != evidence.ToServer || f.Side == evidence.SideAgent || f.Synthetic != "" {
		return
	}
	for _, found := range s.set.In(f.Raw) {
		s.record(f.Server, f.Server, evidence.CanarySeen{
			Canary: found.Canary, How: evidence.ByArgument, Encoding: found.Encoding, Tool: toolOf(f.Raw, s.secrets), Frame: number,
		})
	}
}

// maxToolName is the maximum length of a tool's name in an event, in bytes.
const maxToolName = 256

// toolOf returns the name of the tool that a message calls, or "" if it is not exactly one
// call.
func toolOf(raw []byte, secrets *secret.Set) string {
	m, err := jsonrpc.ReadOne(raw)
	if err != nil || m.Method != "tools/call" {
		return ""
	}
	return beginning(jsontext.Word(jsontext.Member(m.Params, "name")), maxToolName, secrets)
}

// request scans the URL and headers of a request to a server.
func (s *canaryScanner) request(server string, r *http.Request) {
	if !slices.ContainsFunc(s.servers, func(name string) bool { return strings.EqualFold(name, server) }) {
		return // the proxy will reject it
	}
	var head strings.Builder
	head.WriteString(r.RequestURI)
	for name, values := range r.Header {
		head.WriteString("\n" + name + ": " + strings.Join(values, "\n"))
	}
	for _, found := range s.set.In([]byte(head.String())) {
		s.record(server, server, evidence.CanarySeen{Canary: found.Canary, How: evidence.ByArgument, Encoding: found.Encoding})
	}
}

// requests returns a handler that scans requests to servers before it calls next. If only is
// not empty, requests are for that server; otherwise the Host header names it.
func (s *canaryScanner) requests(only string, next http.Handler) http.Handler {
	if s == nil {
		return next
	}
	return http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		server := only
		if server == "" {
			server, _, _ = strings.Cut(strings.ToLower(r.Host), ":")
		}
		s.request(server, r)
		next.ServeHTTP(rw, r)
	})
}

// event scans the host names that programs in a container looked up.
func (s *canaryScanner) event(e evidence.Event) {
	if e.Kind == "dns" {
		name, _ := e.Data["name"].(string)
		s.hostName(e.Where, evidence.ByDNS, name)
	}
}

// maxHostName is the maximum length of a host name in a match, in bytes.
const maxHostName = 255

// hostName scans a host name that a program in a container used.
func (s *canaryScanner) hostName(container, how, name string) {
	if s == nil {
		return
	}
	for _, found := range s.set.InName(name) {
		s.record(container, "", evidence.CanarySeen{
			Canary: found.Canary, How: how, Encoding: found.Encoding, Name: beginning(name, maxHostName, s.secrets),
		})
	}
}

// outgoing returns a writer that scans the bytes of one connection.
func (s *canaryScanner) outgoing(found func(secret.FoundCanary)) io.Writer {
	if s == nil {
		return io.Discard
	}
	return s.set.Watch(found)
}

// sent records a match in bytes that a container sends to a host.
func (s *canaryScanner) sent(container, host string, found secret.FoundCanary) {
	if s == nil {
		return
	}
	s.record(container, host, evidence.CanarySeen{Canary: found.Canary, How: evidence.ByEgress, Encoding: found.Encoding, Name: host})
}

// record records a match, unless the canary may reach to. An empty to is never allowed.
func (s *canaryScanner) record(where, to string, what evidence.CanarySeen) {
	if to != "" && slices.ContainsFunc(s.allowed[what.Canary], func(name string) bool { return strings.EqualFold(name, to) }) {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	as := matchKey{what.Canary, what.How}
	s.seen[as]++
	e := evidence.Event{Kind: evidence.EventCanary, Where: where, Message: describeMatch(where, what), Data: dataOf(what)}
	switch seen := s.seen[as]; {
	case seen > maxSeen:
		return
	case seen == maxSeen:
		e.Message += "; more of it in this way are not recorded"
	}
	s.rec.Event(e)
}

// describeMatch describes in a sentence where a canary was found.
func describeMatch(where string, what evidence.CanarySeen) string {
	switch {
	case what.How == evidence.ByEgress:
		return fmt.Sprintf("canary %q left %s for %s (%s)", what.Canary, where, what.Name, what.Encoding)
	case what.How == evidence.ByDNS:
		return fmt.Sprintf("canary %q is in a name that %s asked for (%s)", what.Canary, where, what.Encoding)
	case what.Tool != "":
		return fmt.Sprintf("canary %q went to server %s in a call of %q (%s)", what.Canary, where, what.Tool, what.Encoding)
	}
	return fmt.Sprintf("canary %q went to server %s (%s)", what.Canary, where, what.Encoding)
}

// dataOf returns a match as the data of an event.
func dataOf(what evidence.CanarySeen) map[string]any {
	var data map[string]any
	raw, err := json.Marshal(what)
	if err == nil {
		err = json.Unmarshal(raw, &data)
	}
	if err != nil { // plain data always marshals
		return nil
	}
	return data
}
