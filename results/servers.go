package results

import (
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/waza-isolate/waza/evidence"
	"github.com/waza-isolate/waza/internal/text"
	"github.com/waza-isolate/waza/sandbox/observe"
)

// ServerReport is the report on a server in a trial.
type ServerReport struct {
	Name   string `json:"name"`
	Mocked bool   `json:"mocked,omitempty"` // it is defined in the eval's mcp_mocks
	Played bool   `json:"played,omitempty"` // it is played from a cassette
	Tally
	// Unmatched are calls that no response of the mock matched.
	Unmatched []string `json:"unmatched_calls,omitempty"`
	// Live are requests that were sent to the real server because the cassette had no answer.
	Live []string `json:"live_requests,omitempty"`
	Lost int      `json:"lost,omitempty"` // calls without an answer because the server or the connection to it ended
	Ends []string `json:"ends,omitempty"` // unexpected ends of its programs, services and container
	// RugPulls describes changes of tools after they were listed; see [evidence.Change.RugPull].
	RugPulls []string `json:"rug_pulls,omitempty"`
	// Unpinned describes differences between its catalog and its pin.
	Unpinned []string  `json:"unpinned,omitempty"`
	Catalog  *Listed   `json:"catalog,omitempty"`  // nil if no list of tools was recorded
	Findings *Findings `json:"findings,omitempty"` // in that catalog; nil if all of it was searched and there are none
	Activity *Activity `json:"activity,omitempty"` // nil if nothing was recorded
}

// OfServers reports whether an event concerns a server.
func OfServers(e evidence.Event) bool {
	switch e.Kind {
	case "server_exit", "service_exit", "container_exit", "oom", "pin", "pids", "disk", "limit", "dns", "egress", "mock", "miss", "live":
		return true
	}
	return false
}

// maxEnds is the maximum number of listed ends of a server, and of listed rug pulls.
const maxEnds = 8

// Reports returns a report on each server of the trial.
func (trial Trial) Reports() []ServerReport {
	var reports []ServerReport
	for _, server := range trial.Servers {
		calls := callsOf(trial, server.Name)
		r := ServerReport{Name: server.Name, Mocked: server.Mocked, Played: server.Played, Unmatched: messages(trial, server.Name, "mock"), Live: messages(trial, server.Name, "live"), Tally: tally(calls), Ends: ends(trial, server.Name), Unpinned: messages(trial, server.Name, "pin")}
		r.Lost = r.Outcomes[evidence.OutcomeTransportError]
		for _, catalog := range trial.Catalogs {
			if catalog.Server == server.Name {
				r.Catalog, r.RugPulls = listed(catalog), rugPulls(catalog)
			}
		}
		r.Activity = activityOf(trial, server.Name)
		reports = append(reports, r)
	}
	return reports
}

func callsOf(trial Trial, server string) (calls []evidence.Call) {
	for _, call := range trial.Calls {
		if call.Server == server && call.Fault == "" { // the outcome of other calls is not the server's
			calls = append(calls, call)
		}
	}
	return calls
}

// messages returns the messages of a server's events of the given kind.
func messages(trial Trial, server, kind string) (reported []string) {
	for _, e := range trial.Events {
		if e.Kind == kind && e.Where == server && len(reported) < maxEnds {
			reported = append(reported, e.Message)
		}
	}
	return reported
}

func rugPulls(catalog evidence.Catalog) []string {
	return text.Some(catalog.RugPulls(), maxEnds, evidence.Change.String)
}

func ends(trial Trial, server string) []string {
	var reported []string
	more := 0
	memory := slices.ContainsFunc(trial.Events, func(e evidence.Event) bool { return e.Kind == "oom" && e.Where == server })
	for _, e := range trial.Events {
		end := endOf(trial, server, e, memory)
		switch {
		case end == "" || slices.Contains(reported, end):
		case len(reported) == maxEnds:
			more++
		default:
			reported = append(reported, end)
		}
	}
	if more > 0 {
		reported = append(reported, fmt.Sprintf("and %d more", more))
	}
	return reported
}

// endOf describes the end of a server's program, service or container, given its event. It returns "" for
// other events.
func endOf(trial Trial, server string, e evidence.Event, memory bool) string {
	service, ofService := strings.CutPrefix(e.Where, server+"/")
	switch {
	case e.Kind == "server_exit" && e.Where == server && e.Data["asked"] != true:
		text := "its process " + e.Message
		if memory && e.Data["signal"] == "SIGKILL" {
			text += " (out of memory)"
		}
		conn, _ := e.Data["conn"].(string)
		return text + during(trial.Calls, server, conn)
	case e.Kind == "service_exit" && ofService:
		return fmt.Sprintf("its service %q %s", service, e.Message)
	case e.Kind == "container_exit" && e.Where == server:
		return e.Message
	case e.Kind == "container_exit" && ofService:
		return fmt.Sprintf("its service %q: %s", service, e.Message)
	}
	return ""
}

// during names the calls without a response because a session or, if conn is empty, the
// server ended.
func during(calls []evidence.Call, server, conn string) string {
	var lost []string
	for _, call := range calls {
		if call.Server == server && call.Outcome == evidence.OutcomeTransportError && (conn == "" || call.Conn == conn) {
			lost = append(lost, strconv.Itoa(call.Seq))
		}
	}
	switch len(lost) {
	case 0:
		return ""
	case 1:
		return " during call " + lost[0]
	}
	return " during calls " + strings.Join(lost[:min(len(lost), maxEnds)], ", ")
}

// Activity is what a server was observed to do apart from answering calls, in one trial or, on a card, in all
// trials. Lists are limited; More counts omitted entries.
type Activity struct {
	Files       []evidence.FileChange `json:"files,omitempty"`
	Programs    []evidence.Program    `json:"programs,omitempty"`
	Connections []evidence.Connection `json:"connections,omitempty"` // attempts to connect to an address, including its own container's
	Names       []AskedName           `json:"names,omitempty"`       // names that it looked up by DNS
	Egress      []EgressHost          `json:"egress,omitempty"`      // outside hosts that it asked to be connected to
	Secrets     []evidence.Echo       `json:"secrets,omitempty"`     // secrets that it sent or wrote
	Limits      []string              `json:"limits,omitempty"`      // limits that it reached

	MemoryPeak  *int64   `json:"memory_peak,omitempty"` // bytes
	CPUSeconds  *float64 `json:"cpu_seconds,omitempty"` // on a card: the maximum over trials
	StderrBytes int64    `json:"stderr_bytes,omitempty"`
	StderrLines int64    `json:"stderr_lines,omitempty"`

	// More counts omitted entries, by the JSON name of the list.
	More map[string]int `json:"more,omitempty"`
	// Unseen explains what was not observed, by the JSON name of the list. Lists without an entry were
	// observed.
	Unseen map[string]string `json:"unseen,omitempty"`
}

// Names of lists of [Activity] that are not in [evidence.Observed].
const (
	listNames   = "names"
	listEgress  = "egress"
	listSecrets = "secrets"
	listLimits  = "limits"
)

// maxConduct is the maximum number of entries in a list.
const maxConduct = 20

// AskedName is a name that a server's programs looked up by DNS.
type AskedName struct {
	Name     string `json:"name"`
	Answered bool   `json:"answered"`
	Count    int    `json:"count"`
}

// EgressHost is an external host, with the traffic that was carried or refused.
type EgressHost struct {
	Name        string `json:"name"`
	Port        int    `json:"port"`
	Connections int    `json:"connections"`
	Refused     int    `json:"refused,omitempty"` // number of refused connections
	Out         int64  `json:"bytes_out"`
	In          int64  `json:"bytes_in"`
}

// Written is the amount of data that a server wrote to its stderr.
type Written struct{ Bytes, Lines int64 }

// activityOf returns the observed activity of a server in a trial, or nil if nothing was recorded.
func activityOf(trial Trial, server string) *Activity {
	seen := Activity{
		Secrets: trial.Echoes[server], StderrBytes: trial.Stderr[server].Bytes, StderrLines: trial.Stderr[server].Lines,
	}
	for _, e := range trial.Events {
		if e.Where == server {
			seen.event(e)
		}
	}
	if used := trial.Resources[server].Used; used != nil {
		seen.CPUSeconds = used.CPU
		if used.Memory != nil {
			seen.MemoryPeak = &used.Memory.Peak
		}
	}
	i := slices.IndexFunc(trial.Observed, func(o evidence.Observed) bool { return o.Container == server })
	switch {
	case i >= 0:
		seen.observed(trial.Observed[i].Seen)
	case reflect.DeepEqual(seen, Activity{}):
		return nil
	default: // a remote server, or a run of an older version
		seen.observed(observe.Nothing("nothing is on record"))
	}
	var c Activity
	c.add(seen)
	return &c
}

func (c *Activity) observed(o observe.Seen) {
	c.Files, c.Programs, c.Unseen = o.Files, o.Programs, o.Unseen
	c.Connections = slices.SortedStableFunc(slices.Values(o.Connections), outsideFirst)
	for list, more := range o.More {
		c.count(list, more)
	}
}

// outsideFirst sorts connections that lead out of a container before others.
func outsideFirst(a, b evidence.Connection) int {
	switch {
	case a.Outside() == b.Outside():
		return 0
	case a.Outside():
		return -1
	}
	return 1
}

// event adds an event about a server.
func (c *Activity) event(e evidence.Event) {
	switch e.Kind {
	case "dns":
		c.asked(e.Data)
	case "egress":
		c.connected(e.Data)
	case "oom", "pids", "disk", "limit":
		c.Limits = append(c.Limits, e.Message)
	}
}

func (c *Activity) asked(data map[string]any) {
	name, _ := data["name"].(string)
	answered, _ := data["answered"].(bool)
	if name != "" {
		c.Names = append(c.Names, AskedName{name, answered, 1})
	}
	if omitted, _ := data[evidence.DataOmitted].(float64); omitted > 0 {
		c.count(listNames, int(min(omitted, maxFigure)))
	}
}

// connected adds an egress event. It ignores events without a name, which are connections of the runner
// itself.
func (c *Activity) connected(data map[string]any) {
	var e evidence.Egress
	text, err := json.Marshal(data)
	if err != nil || json.Unmarshal(text, &e) != nil || e.Name == "" {
		return
	}
	host := EgressHost{Name: e.Name, Port: e.Port, Connections: 1, Out: e.Out, In: e.In}
	if !e.Allowed {
		host.Refused = 1
	}
	c.Egress = append(c.Egress, host)
}

func (c *Activity) count(list string, more int) {
	if more == 0 {
		return
	}
	if c.More == nil {
		c.More = map[string]int{}
	}
	c.More[list] += more
}

// add merges the activity in another trial: counts are summed, and for peaks the maximum is kept.
func (c *Activity) add(other Activity) {
	for _, list := range slices.Sorted(maps.Keys(other.More)) {
		c.count(list, other.More[list])
	}
	for list, why := range other.Unseen {
		if _, reported := c.Unseen[list]; !reported {
			if c.Unseen == nil {
				c.Unseen = map[string]string{}
			}
			c.Unseen[list] = why
		}
	}
	c.count(observe.Files, fold(&c.Files, other.Files,
		func(f evidence.FileChange) any { return [...]string{f.Path, f.What, f.Kind} },
		func(to *evidence.FileChange, f evidence.FileChange) { to.Size = max(to.Size, f.Size) }, nil))
	c.count(observe.Programs, fold(&c.Programs, other.Programs,
		func(p evidence.Program) any { return p.Path },
		func(to *evidence.Program, p evidence.Program) { to.Count += p.Count },
		func(p evidence.Program) int { return p.Count }))
	c.count(observe.Connections, fold(&c.Connections, other.Connections,
		func(n evidence.Connection) any { return [...]string{n.Network, n.Address} },
		func(to *evidence.Connection, n evidence.Connection) { to.Count += n.Count },
		func(n evidence.Connection) int { return n.Count }))
	c.count(listNames, fold(&c.Names, other.Names,
		func(n AskedName) any { return AskedName{Name: n.Name, Answered: n.Answered} },
		func(to *AskedName, n AskedName) { to.Count += n.Count },
		func(n AskedName) int { return n.Count }))
	c.count(listEgress, fold(&c.Egress, other.Egress,
		func(h EgressHost) any { return EgressHost{Name: h.Name, Port: h.Port} },
		func(to *EgressHost, h EgressHost) {
			to.Connections, to.Refused, to.Out, to.In = to.Connections+h.Connections, to.Refused+h.Refused, to.Out+h.Out, to.In+h.In
		},
		func(h EgressHost) int { return h.Connections }))
	c.count(listSecrets, fold(&c.Secrets, other.Secrets,
		func(e evidence.Echo) any { return e.Secret },
		func(to *evidence.Echo, e evidence.Echo) {
			to.Frames, to.Stderr = to.Frames+e.Frames, to.Stderr+e.Stderr
		}, nil))
	c.count(listLimits, fold(&c.Limits, other.Limits, func(l string) any { return l }, func(*string, string) {}, nil))
	c.MemoryPeak, c.CPUSeconds = highest(c.MemoryPeak, other.MemoryPeak), highest(c.CPUSeconds, other.CPUSeconds)
	c.StderrBytes += other.StderrBytes
	c.StderrLines += other.StderrLines
}

// fold adds entries to a list, up to maxConduct, and merges entries with equal keys. It returns the number of
// omitted entries: the sum of counts over them, or one each if counts is nil.
func fold[T any](list *[]T, entries []T, key func(T) any, merge func(*T, T), counts func(T) int) (more int) {
	for _, e := range entries {
		i := slices.IndexFunc(*list, func(other T) bool { return key(other) == key(e) })
		switch {
		case i >= 0:
			merge(&(*list)[i], e)
		case len(*list) < maxConduct:
			*list = append(*list, e)
		case counts == nil:
			more++
		default:
			more += counts(e)
		}
	}
	return more
}

// highest returns the larger of two values, either of which may be nil.
func highest[T int64 | float64](a, b *T) *T {
	if a == nil || b != nil && *b > *a {
		return b
	}
	return a
}
