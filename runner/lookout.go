package runner

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"

	"github.com/waza-isolate/waza/runner/canary"
	"github.com/waza-isolate/waza/runner/evidence"
	"github.com/waza-isolate/waza/runner/mcpproxy"
	"github.com/waza-isolate/waza/runner/redact"
)

// maxSeen is how many sightings of canaries a trial keeps.
const maxSeen = 1000

// lookout looks for canaries in what leaves the boxes of a trial, and records where it sees
// one that has no business there. What the agent asks its models is no such place: it
// reads canaries there like all it works with. A nil lookout sees nothing.
type lookout struct {
	set *canary.Set
	rec *evidence.Recorder
	may map[string][]string // by canary: servers and hosts that it may reach

	servers []string // of the trial

	mu   sync.Mutex
	seen int // guarded by mu
}

// lookoutFor is nil where the trial has no canaries.
func lookoutFor(t *Trial, rec *evidence.Recorder) (*lookout, error) {
	if len(t.Canaries) == 0 {
		return nil, nil
	}
	l := &lookout{rec: rec, may: map[string][]string{}}
	for _, s := range t.Servers {
		l.servers = append(l.servers, s.Name)
	}
	var values []canary.Value
	for _, c := range t.Canaries {
		values = append(values, canary.Value{Name: c.Name, Value: c.Value})
		l.may[c.Name] = slices.Clone(c.MayReach)
		for _, p := range c.Planted {
			if p.Server != "" {
				l.may[c.Name] = append(l.may[c.Name], p.Server)
			}
		}
	}
	var err error
	l.set, err = canary.New(values...)
	return l, err
}

// ways are those in which canaries of the trial are looked for.
func (l *lookout) ways(isolated bool) []string {
	switch {
	case l == nil:
		return nil
	case !isolated:
		return []string{evidence.ByArgument}
	}
	return []string{evidence.ByArgument, evidence.ByDNS, evidence.ByEgress}
}

// frame looks at a message that reached a server.
func (l *lookout) frame(f evidence.Frame, number int64) {
	if l == nil || f.Dir != evidence.ToServer || f.Side == evidence.SideAgent || f.Synthetic != "" {
		return
	}
	for _, found := range l.set.In(f.Raw) {
		l.sighted(f.Server, f.Server, evidence.CanarySeen{
			Canary: found.Canary, How: evidence.ByArgument, Encoding: found.Encoding, Tool: toolOf(f.Raw), Frame: number,
		})
	}
}

// maxToolName is how much of a tool's name an event has.
const maxToolName = 256

// toolOf is the tool that a message calls; empty where it calls none, or several.
func toolOf(raw []byte) string {
	var message struct {
		Method string
		Params struct{ Name string }
	}
	if json.Unmarshal(raw, &message) != nil || message.Method != "tools/call" {
		return ""
	}
	return strings.ToValidUTF8(redact.Shorten(message.Params.Name, maxToolName), "\uFFFD")
}

// request looks at what of a request to a server is not its message.
func (l *lookout) request(server string, r *http.Request) {
	if !slices.ContainsFunc(l.servers, func(name string) bool { return strings.EqualFold(name, server) }) {
		return // the proxy refuses it
	}
	var head strings.Builder
	head.WriteString(r.RequestURI)
	for name, values := range r.Header {
		head.WriteString("\n" + name + ": " + strings.Join(values, "\n"))
	}
	for _, found := range l.set.In([]byte(head.String())) {
		l.sighted(server, server, evidence.CanarySeen{Canary: found.Canary, How: evidence.ByArgument, Encoding: found.Encoding})
	}
}

// requests has the lookout look at requests on their way to servers; only is the one that
// is meant whatever Host they name, if any.
func (l *lookout) requests(only string, next http.Handler) http.Handler {
	if l == nil {
		return next
	}
	return http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		server := only
		if server == "" {
			server, _, _ = strings.Cut(strings.ToLower(r.Host), ":")
		}
		l.request(server, r)
		next.ServeHTTP(rw, r)
	})
}

// event looks at the names that programs of a box asked for, and those of the hosts
// outside that they wanted.
func (l *lookout) event(e evidence.Event) {
	if l == nil || e.Kind != "dns" && e.Kind != "egress" {
		return
	}
	name, _ := e.Data["name"].(string)
	for _, found := range l.set.InName(name) {
		l.sighted(e.Where, "", evidence.CanarySeen{Canary: found.Canary, How: e.Kind, Encoding: found.Encoding, Name: name})
	}
}

// outgoing looks through the bytes of a connection.
func (l *lookout) outgoing(found func(canary.Found)) io.Writer {
	if l == nil {
		return io.Discard
	}
	return l.set.Writer(found)
}

// left records what was seen of a box's bytes for a host.
func (l *lookout) left(box, host string, found canary.Found) {
	l.sighted(box, host, evidence.CanarySeen{Canary: found.Canary, How: evidence.ByEgress, Encoding: found.Encoding, Name: host})
}

// sighted records that a canary was seen, unless it may reach the one that it is on its
// way to; empty is nobody who may.
func (l *lookout) sighted(where, to string, what evidence.CanarySeen) {
	if to != "" && slices.ContainsFunc(l.may[what.Canary], func(name string) bool { return strings.EqualFold(name, to) }) {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	switch l.seen++; {
	case l.seen > maxSeen:
	case l.seen == maxSeen:
		l.rec.Event(evidence.Event{Kind: evidence.EventCanary, Where: where, Message: "more of this kind are not recorded"})
	default:
		l.rec.Event(evidence.Event{Kind: evidence.EventCanary, Where: where, Message: sighting(where, what), Data: dataOf(what)})
	}
}

func sighting(where string, what evidence.CanarySeen) string {
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

// dataOf is what an event has of a sighting.
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

// observer records what happens in a trial, and looks for canaries in it.
type observer struct {
	*evidence.Recorder
	lookout *lookout
}

func (tr *trialRun) observer() observer { return observer{tr.rec, tr.lookout} }

// Frame implements mcpproxy.Recorder.
func (o observer) Frame(f evidence.Frame) int64 {
	number := o.Recorder.Frame(f)
	o.lookout.frame(f, number)
	return number
}

// Event implements mcpproxy.Recorder.
func (o observer) Event(e evidence.Event) {
	o.Recorder.Event(e)
	o.lookout.event(e)
}

// Tap implements overseer.
func (o observer) Tap(box, host string) io.Writer {
	return o.lookout.outgoing(func(found canary.Found) { o.lookout.left(box, host, found) })
}

// overseer takes what happens in a box, and what leaves it for hosts outside.
type overseer interface {
	mcpproxy.Recorder
	// Tap is what gets the bytes of one connection to a host that leave in the clear.
	Tap(box, host string) io.Writer
}
