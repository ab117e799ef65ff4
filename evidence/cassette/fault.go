package cassette

import (
	"errors"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/waza-isolate/waza/evidence"
	"github.com/waza-isolate/waza/grading/match"
)

// Fault is a fault injected into some requests to a server or a model, played or not: calls to a server, or a
// model's turns. Its conditions work like those of an [Entry].
type Fault struct {
	Server      string             `json:"server,omitempty" jsonschema:"server whose calls have the fault"`
	Model       string             `json:"model,omitempty" jsonschema:"provider whose models' turns have the fault, in place of server"`
	Tool        string             `json:"tool,omitempty" jsonschema:"exact name of the tool; default every tool"`
	Match       match.Matchers     `json:"match,omitempty" jsonschema:"conditions on the call, such as arguments.id: a value or a matcher, as in a cassette"`
	Nth         int                `json:"nth,omitempty" min:"1" max:"1000000" jsonschema:"which of these requests in a trial has the fault, from 1; default every one"`
	Probability float64            `json:"probability,omitempty" over:"0" max:"1" jsonschema:"share of these requests that have the fault, in place of nth"`
	Seed        int64              `json:"seed,omitempty" jsonschema:"chooses which of them; another run with the same seed has the same faults; default 0"`
	Kind        evidence.FaultKind `json:"fault" enum:"tool_error error kill delay drop truncate invalid wrong_id slow late list_changed rate_limit server_error stall cut" jsonschema:"kind of fault"`
	DelayMS     int                `json:"delay_ms,omitempty" min:"1" max:"604800000" jsonschema:"milliseconds that delay, slow and late take; default 1000, of late the server's timeout"`
	RetryAfter  int                `json:"retry_after,omitempty" min:"1" max:"86400" jsonschema:"seconds in the header retry-after of rate_limit; default 1"`
	Message     string             `json:"message,omitempty" jsonschema:"text of tool_error, error, rate_limit and server_error"`

	times       int // affects only the first requests; 0 means no limit
	kind, match *match.Args
}

// String describes the fault and the requests that have it.
func (f Fault) String() string {
	of := "turns of " + f.Model
	switch {
	case f.Tool != "":
		of = fmt.Sprintf("calls of %s of %s", f.Tool, f.Server)
	case f.Model == "":
		of = "calls of " + f.Server
	}
	if f.Match != nil || f.match != nil {
		of += " that match"
	}
	switch {
	case f.Nth > 0:
		of += fmt.Sprintf(", the one numbered %d", f.Nth)
	case f.Probability > 0:
		of += fmt.Sprintf(", with probability %g", f.Probability)
	case f.times > 0:
		of += fmt.Sprintf(", the first %d", f.times)
	}
	return fmt.Sprintf("%s of %s", f.Kind, of)
}

// FaultKinds returns the kinds of faults of servers or models.
func FaultKinds(of Kind) []evidence.FaultKind {
	if of == Models {
		return []evidence.FaultKind{evidence.FaultRateLimit, evidence.FaultServerError, evidence.FaultDelay, evidence.FaultStall, evidence.FaultCut}
	}
	return []evidence.FaultKind{
		evidence.FaultToolError, evidence.FaultError, evidence.FaultKill, evidence.FaultDelay, evidence.FaultDrop, evidence.FaultTruncate,
		evidence.FaultInvalid, evidence.FaultWrongID, evidence.FaultSlow, evidence.FaultLate, evidence.FaultChanged,
	}
}

// Kinds of faults with additional keys.
var (
	withDelay   = []evidence.FaultKind{evidence.FaultDelay, evidence.FaultSlow, evidence.FaultLate}
	withMessage = []evidence.FaultKind{evidence.FaultToolError, evidence.FaultError, evidence.FaultRateLimit, evidence.FaultServerError}
)

// Compile checks a fault and prepares it for [NewFaults]. An error comes with the key that it concerns, if
// there is one.
func (f *Fault) Compile() (key string, err error) {
	kind, _ := f.side()
	known, of := FaultKinds(kind), "a server"
	if kind == Models {
		of = "a model"
	}
	switch {
	case (f.Server == "") == (f.Model == ""):
		return "", errors.New("needs server or model, one of them")
	case f.Model != "" && f.Tool != "":
		return "tool", errors.New("has a tool, and a model has none; remove it, or give it a server")
	case f.Model != "" && f.Match != nil:
		return "match", errors.New("has match, which is for calls of a server; remove it")
	case f.Kind == "":
		return "", nil // reported as missing
	case !slices.Contains(known, f.Kind):
		return "fault", fmt.Errorf("is %s, and of %s it can be %s", f.Kind, of, joined(known))
	case f.Nth > 0 && f.Probability > 0:
		return "nth", errors.New("has nth and probability; remove one of them")
	case f.Seed != 0 && f.Probability == 0:
		return "seed", errors.New("has a seed, which needs probability")
	case f.DelayMS > 0 && !slices.Contains(withDelay, f.Kind):
		return "delay_ms", fmt.Errorf("has delay_ms, which is for %s; remove it", joined(withDelay))
	case f.RetryAfter > 0 && f.Kind != evidence.FaultRateLimit:
		return "retry_after", fmt.Errorf("has retry_after, which is for %s; remove it", evidence.FaultRateLimit)
	case f.Message != "" && !slices.Contains(withMessage, f.Kind):
		return "message", fmt.Errorf("has a message, which is for %s; remove it", joined(withMessage))
	}
	f.match, err = conditions("match", f.Match)
	return "match", err
}

func joined(kinds []evidence.FaultKind) string {
	names := make([]string, len(kinds))
	for i, k := range kinds {
		names[i] = string(k)
	}
	return strings.Join(names[:len(names)-1], ", ") + " or " + names[len(names)-1]
}

// Delay returns the delay of a fault, or other if the fault sets none.
func (f *Fault) Delay(other time.Duration) time.Duration {
	if f.DelayMS == 0 {
		return other
	}
	return time.Duration(f.DelayMS) * time.Millisecond
}

// DefaultDelay is the delay of a fault that sets none.
const DefaultDelay = time.Second

// side returns the kind and the name of the side whose requests have the fault.
func (f *Fault) side() (Kind, string) {
	if f.Model != "" {
		return Models, f.Model
	}
	return Servers, f.Server
}

// Faults selects the requests of a trial that have faults. It is safe for concurrent use.
type Faults struct {
	all  []Fault
	seed uint64 // derived from the task and the trial number

	mu    sync.Mutex
	count []int // number of requests that met each fault's conditions; guarded by mu
}

// NewFaults returns the faults of a trial, which must be compiled. The same requests in the same order get
// the same faults.
func NewFaults(all []Fault, task string, trial int) *Faults {
	sum := fnv.New64a()
	_, _ = fmt.Fprintf(sum, "%s/%d", task, trial)
	return &Faults{all: all, seed: sum.Sum64(), count: make([]int, len(all))}
}

// Of returns a function that returns the fault of the next request to a side, or nil. If several faults are
// due, it returns the first in the list. Of returns nil if the side has no faults. members returns the
// members of the request, as [Player.Ask] takes them; it is called only if there are conditions.
func (f *Faults) Of(kind Kind, name string) func(members func() map[string]any) *Fault {
	var mine []int
	for i := range f.all {
		if k, n := f.all[i].side(); k == kind && n == name {
			mine = append(mine, i)
		}
	}
	if mine == nil {
		return nil
	}
	return func(members func() map[string]any) (chosen *Fault) {
		f.mu.Lock()
		defer f.mu.Unlock()
		var request map[string]any
		for _, i := range mine {
			one := &f.all[i]
			if request == nil && (one.Tool != "" || one.match != nil || one.kind != nil) {
				request = expanded(members())
			}
			if one.Tool != "" && request["tool"] != one.Tool || !one.kind.Takes(request) || !one.match.Takes(request) {
				continue
			}
			f.count[i]++
			if chosen == nil && f.isTime(i) {
				chosen = one
			}
		}
		return chosen
	}
}

// isTime reports whether fault i is due for the latest request that met its conditions.
func (f *Faults) isTime(i int) bool {
	one, count := &f.all[i], f.count[i]
	switch {
	case one.Nth > 0:
		return count == one.Nth
	case one.Probability > 0:
		return rand.New(rand.NewPCG(f.seed+uint64(one.Seed), uint64(i)<<32+uint64(count))).Float64() < one.Probability
	}
	return one.times == 0 || count <= one.times
}
