package results

import (
	"encoding/json"
	"maps"
	"reflect"
	"slices"

	"github.com/waza-isolate/waza/evidence"
	"github.com/waza-isolate/waza/sandbox/observe"
)

// Conduct is what a server did beside answering calls: in one trial, or in all that a
// card is of. Lists hold the first of what there is; More counts the others.
type Conduct struct {
	Files       []evidence.FileChange `json:"files,omitempty"`
	Programs    []evidence.Program    `json:"programs,omitempty"`
	Connections []evidence.Connection `json:"connections,omitempty"` // that it tried by address, inside its container too
	Names       []AskedName           `json:"names,omitempty"`       // that it asked DNS for
	Egress      []EgressHost          `json:"egress,omitempty"`      // that it asked to be connected to, outside
	Secrets     []evidence.Echo       `json:"secrets,omitempty"`     // that it said
	Limits      []string              `json:"limits,omitempty"`      // that it ran into

	MemoryPeak  *int64   `json:"memory_peak,omitempty"` // bytes
	CPUSeconds  *float64 `json:"cpu_seconds,omitempty"` // of a card: the most in a trial
	StderrBytes int64    `json:"stderr_bytes,omitempty"`
	StderrLines int64    `json:"stderr_lines,omitempty"`

	// More counts what is not listed, by the list's name in JSON.
	More map[string]int `json:"more,omitempty"`
	// Unseen says what could not be watched, and why, by the list's name in JSON. What has
	// no entry here was watched.
	Unseen map[string]string `json:"unseen,omitempty"`
}

// Names of lists of [Conduct] that are no lists of [evidence.Observed].
const (
	listNames   = "names"
	listEgress  = "egress"
	listSecrets = "secrets"
	listLimits  = "limits"
)

// maxConduct is how much of each list is told.
const maxConduct = 20

// AskedName is a name that a server's programs asked DNS for.
type AskedName struct {
	Name     string `json:"name"`
	Answered bool   `json:"answered"`
	Count    int    `json:"count"`
}

// EgressHost is a host outside, and what was carried there and back or refused.
type EgressHost struct {
	Name        string `json:"name"`
	Port        int    `json:"port"`
	Connections int    `json:"connections"`
	Refused     int    `json:"refused,omitempty"` // of them
	Out         int64  `json:"bytes_out"`
	In          int64  `json:"bytes_in"`
}

// Written is how much a server wrote to its stderr.
type Written struct{ Bytes, Lines int64 }

// conduct is what a server did in a trial; nil where nothing on record tells of it.
func conduct(trial Trial, server string) *Conduct {
	seen := Conduct{
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
	case reflect.DeepEqual(seen, Conduct{}):
		return nil
	default: // a server that is far away, or a run of before
		seen.observed(observe.Nothing("nothing on record tells of it"))
	}
	var c Conduct
	c.add(seen)
	return &c
}

func (c *Conduct) observed(o observe.Seen) {
	c.Files, c.Programs, c.Unseen = o.Files, o.Programs, o.Unseen
	c.Connections = slices.SortedStableFunc(slices.Values(o.Connections), outsideFirst)
	for list, more := range o.More {
		c.count(list, more)
	}
}

// outsideFirst has what leads out of a container told before what does not.
func outsideFirst(a, b evidence.Connection) int {
	switch {
	case a.Outside() == b.Outside():
		return 0
	case a.Outside():
		return -1
	}
	return 1
}

// event adds what an event tells of a server.
func (c *Conduct) event(e evidence.Event) {
	switch e.Kind {
	case "dns":
		c.asked(e.Data)
	case "egress":
		c.connected(e.Data)
	case "oom", "pids", "disk", "limit":
		c.Limits = append(c.Limits, e.Message)
	}
}

func (c *Conduct) asked(data map[string]any) {
	name, _ := data["name"].(string)
	answered, _ := data["answered"].(bool)
	if name != "" {
		c.Names = append(c.Names, AskedName{name, answered, 1})
	}
	if untold, _ := data["untold_before"].(float64); untold > 0 {
		c.count(listNames, int(min(untold, maxFigure)))
	}
}

// connected takes in an event of kind egress, of which there is another that the runner
// has for what it dials itself: that one has no name.
func (c *Conduct) connected(data map[string]any) {
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

func (c *Conduct) count(list string, more int) {
	if more == 0 {
		return
	}
	if c.More == nil {
		c.More = map[string]int{}
	}
	c.More[list] += more
}

// add takes in what was done besides, or in another trial: counts are added up, of
// peaks the highest stays.
func (c *Conduct) add(other Conduct) {
	for _, list := range slices.Sorted(maps.Keys(other.More)) {
		c.count(list, other.More[list])
	}
	for list, why := range other.Unseen {
		if _, told := c.Unseen[list]; !told {
			if c.Unseen == nil {
				c.Unseen = map[string]string{}
			}
			c.Unseen[list] = why
		}
	}
	c.count(observe.Files, fold(&c.Files, other.Files, sameFile, newerFile, nil))
	c.count(observe.Programs, fold(&c.Programs, other.Programs, sameProgram, addProgram, func(p evidence.Program) int { return p.Count }))
	c.count(observe.Connections, fold(&c.Connections, other.Connections, sameConnection, addConnection, func(n evidence.Connection) int { return n.Count }))
	c.count(listNames, fold(&c.Names, other.Names, sameName, addName, func(n AskedName) int { return n.Count }))
	c.count(listEgress, fold(&c.Egress, other.Egress, sameHost, addHost, func(h EgressHost) int { return h.Connections }))
	c.count(listSecrets, fold(&c.Secrets, other.Secrets, sameSecret, addSecret, nil))
	c.count(listLimits, fold(&c.Limits, other.Limits, func(a, b string) bool { return a == b }, func(*string, string) {}, nil))
	c.MemoryPeak, c.CPUSeconds = highest(c.MemoryPeak, other.MemoryPeak), highest(c.CPUSeconds, other.CPUSeconds)
	c.StderrBytes += other.StderrBytes
	c.StderrLines += other.StderrLines
}
