package cassette

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"strings"
	"sync"
	"time"

	"github.com/waza-isolate/waza/grading/match"
	"github.com/waza-isolate/waza/internal/jsontext"
	"github.com/waza-isolate/waza/internal/template"
	"github.com/waza-isolate/waza/internal/text"
)

// Player answers from a side, and keeps track of the answers it has given.
type Player struct {
	side *Side

	mu    sync.Mutex
	uses  map[use]int    // number of requests that each entry has answered; guarded by mu
	state map[string]any // guarded by mu
}

// use is the use of an entry in a thread.
type use struct {
	thread string
	entry  int
}

// maxUses is the maximum number of entries, per thread, whose uses a player counts. Uses of further ones are
// not counted.
const maxUses = 100_000

// Play returns a player that has not answered anything yet. Each trial needs its own.
func (s *Side) Play() *Player {
	return &Player{side: s, uses: map[use]int{}, state: maps.Clone(s.state)}
}

// Given is the answer to a request.
type Given struct {
	Entry int // index of the entry
	Value json.RawMessage
	Delay time.Duration // time to wait before the answer
}

// Miss is a request without an answer.
type Miss struct {
	Request map[string]any
	// Spent reports that entries match the request, but have given all their answers.
	Spent bool
	// Nearest is the index of the entry of the request's kind that matches the request best, or -1.
	// Difference is the first difference, if there is any.
	Nearest    int
	Difference match.Difference
	// Other is the other way to find an entry, and Otherwise the index of the entry found that way, or -1.
	Other     string
	Otherwise int
	// Unfilled is the error of the template of the nearest entry, which would have been the answer.
	Unfilled error

	side *Side
}

// Ask returns the answer to a request, or the miss. The request is an object as returned by [jsontext.Parse].
// Answers are counted separately for each thread of requests.
func (p *Player) Ask(thread string, request map[string]any) (Given, *Miss) {
	p.mu.Lock()
	defer p.mu.Unlock()
	members := p.members(request)
	i, spent := p.find(thread, members, p.side.Find)
	if i < 0 {
		return Given{}, p.miss(thread, request, members, spent)
	}
	e := &p.side.Entries[i]
	this := use{thread, i}
	answer, nth := e.Answer, 0
	if answer == nil {
		nth = p.uses[this]
		answer = &e.Answers[nth]
	}
	value, state := answer.Value, maps.Clone(p.state)
	maps.Copy(state, e.set)
	if e.Template {
		var err error
		if value, state, err = e.fill(nth, members, state); err != nil {
			return Given{}, &Miss{Request: request, Nearest: i, Otherwise: -1, Unfilled: err, side: p.side}
		}
	}
	if _, known := p.uses[this]; e.counted && (known || len(p.uses) < maxUses) {
		p.uses[this]++
	}
	p.state = state
	return Given{i, value, time.Duration(answer.DelayMS) * time.Millisecond}, nil
}

// fill fills the templates of an entry for a request. It returns the value of the nth answer, and the new
// state.
func (e *Entry) fill(nth int, members, state map[string]any) (json.RawMessage, map[string]any, error) {
	values := template.NewVariables()
	for name, value := range members {
		values.Bind(name, value)
	}
	both, err := template.Fill([]any{state, e.filled[nth]}, values)
	if err != nil {
		return nil, nil, err
	}
	filled := both.([]any)
	value, err := jsontext.Marshal(filled[1])
	return value, filled[0].(map[string]any), err
}

// members returns the members that conditions apply to: those of the request, the state, and members of
// objects, named like arguments.id.
func (p *Player) members(request map[string]any) map[string]any {
	if len(p.state) > 0 {
		request = maps.Clone(request)
		request["state"] = p.state
	}
	return expanded(request)
}

// expanded returns the members of a request together with the members of its objects.
func expanded(request map[string]any) map[string]any {
	all := maps.Clone(request)
	for name, value := range request {
		object, _ := value.(map[string]any)
		for inner, value := range object {
			all[name+"."+inner] = value
		}
	}
	return all
}

// find returns the index of the first entry that matches a request and has an answer left, or -1, and whether
// any entry matched. An entry whose times are used up lets later entries answer. An entry whose list of
// answers is used up does not, unless requests are answered in sequence.
func (p *Player) find(thread string, members map[string]any, way string) (found int, spent bool) {
	for i := range p.side.Entries {
		e := &p.side.Entries[i]
		if e.Fault != "" || e.after >= 0 && p.uses[use{thread, e.after}] == 0 || !e.kind.Takes(members) || way != InSequence && !e.match.Takes(members) {
			continue
		}
		spent = true
		switch {
		case e.Times > 0 && p.uses[use{thread, i}] >= e.Times:
		case e.Answer != nil || p.uses[use{thread, i}] < len(e.Answers):
			return i, true
		case way != InSequence:
			return -1, true
		}
	}
	return -1, spent
}

// miss returns the miss of a request without an answer.
func (p *Player) miss(thread string, request, members map[string]any, spent bool) *Miss {
	m := &Miss{Request: request, Spent: spent, Nearest: -1, Other: InSequence, side: p.side}
	if p.side.Find == InSequence {
		m.Other = ByMatch
	}
	m.Otherwise, _ = p.find(thread, members, m.Other)
	best, differences := -1.0, 0
	for i := range p.side.Entries {
		e := &p.side.Entries[i]
		if e.Fault != "" || !e.kind.Takes(members) {
			continue
		}
		fit := e.match.CheckValue(members)
		share := float64(fit.Satisfied+1) / float64(fit.Total+1)
		if share > best || share == best && len(fit.Differences) < differences {
			best, differences, m.Nearest, m.Difference = share, len(fit.Differences), i, match.Difference{}
			if len(fit.Differences) > 0 {
				m.Difference = fit.Differences[0]
			}
		}
	}
	return m
}

// maxShown is the maximum number of bytes of a request shown in a miss.
const maxShown = 200

// Place returns the place of an entry, for messages.
func (s *Side) Place(entry int) string {
	return cmp.Or(s.Entries[entry].at, fmt.Sprintf("entries[%d]", entry))
}

// Error describes the miss in one sentence.
func (m *Miss) Error() string {
	var said strings.Builder
	fmt.Fprintf(&said, "no entry answers %s", text.Shorten(jsontext.Encode(m.Request), maxShown))
	switch {
	case m.Unfilled != nil:
		fmt.Fprintf(&said, ": %s would, but for %v", m.side.Place(m.Nearest), m.Unfilled)
	case m.Spent:
		fmt.Fprintf(&said, ": %s has given all its answers", m.side.Place(m.Nearest))
	case m.Difference.Path != "":
		fmt.Fprintf(&said, "; the nearest is %s, with %s", m.side.Place(m.Nearest), m.Difference)
	case m.Nearest < 0:
		said.WriteString(", nor anything of its kind")
	default:
		fmt.Fprintf(&said, ": %s is given only after another", m.side.Place(m.Nearest))
	}
	if m.Otherwise >= 0 {
		fmt.Fprintf(&said, "; find: %s would give it %s", m.Other, m.side.Place(m.Otherwise))
	}
	return said.String()
}
