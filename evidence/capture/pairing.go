package capture

import (
	"cmp"
	"crypto/sha256"
	"encoding/json"
	"slices"

	"github.com/waza-isolate/waza/evidence"
	"github.com/waza-isolate/waza/internal/jsontext"
)

// Pairing matches the tool uses that an agent reports with the captured calls. Both list the same calls,
// whereas package grading/match compares calls with expected ones. Pairing maximizes the number of pairs,
// then of pairs with equal arguments, then of pairs with equal outcomes and equal results. It pairs the
// remaining candidates in order. So the result does not depend on the order in which a transcript lists
// parallel calls.
type Pairing struct {
	tools    map[string][]string
	reported []reportedUse
	calls    []evidence.Call
	call     []int // index of the call of each reported use, or none
	taken    []bool
	err      error // error from reading a result

	input []string // canonical arguments of each call; empty without a transcript
	// namesServers reports that names in the transcript include those of servers, so that a
	// bare name is a builtin tool. namesTools reports that none do and that bare names are
	// captured calls, so that a bare name is a server's tool.
	namesServers, namesTools bool
}

const none = -1

// Pair matches the uses of tools in a transcript with the captured calls. tools is as returned by [Tools].
func Pair(tools map[string][]string, calls []evidence.Call, transcript []evidence.TranscriptEvent) *Pairing {
	reported := reportedUses(tools, transcript)
	p := &Pairing{tools: tools, reported: reported, calls: calls, taken: make([]bool, len(calls))}
	if len(reported) == 0 {
		return p
	}
	for range reported {
		p.call = append(p.call, none)
	}
	for _, call := range calls {
		p.input = append(p.input, inputForm(call.Arguments, call.Marks))
	}
	p.exact()
	for i, t := range reported {
		if t.means.claims() && !t.means.Bare {
			p.namesServers = true
		} else if p.call[i] != none {
			p.namesTools = true
		}
	}
	p.namesTools = p.namesTools && !p.namesServers
	if p.namesTools {
		p.remaining(func(t reportedUse) bool { return t.means.Bare })
	}
	p.ambiguous()
	return p
}

// exact pairs uses whose name refers to one tool. It starts with names that include a
// server, since a bare name is only a call if the arguments match.
func (p *Pairing) exact() {
	p.within(func(reported, calls []int) {
		qualified := func(i int) bool { return !p.reported[i].means.Bare }
		p.refine(only(reported, qualified), calls, levels())
		p.refine(only(reported, func(i int) bool { return !qualified(i) }), p.free(calls), levels())
	})
	p.remaining(func(t reportedUse) bool { return !t.means.Bare })
}

// remaining pairs, in order, the unpaired uses that qualify.
func (p *Pairing) remaining(qualifies func(reportedUse) bool) {
	p.within(func(reported, calls []int) {
		reported = only(reported, func(i int) bool { return p.call[i] == none && qualifies(p.reported[i]) })
		p.inOrder(reported, p.free(calls))
	})
}

// within calls take with the uses and the calls of each tool that uses name unambiguously.
func (p *Pairing) within(take func(reported, calls []int)) {
	calls := map[evidence.ToolRef][]int{}
	for i, call := range p.calls {
		ref := call.ToolRef()
		calls[ref] = append(calls[ref], i)
	}
	reported := map[evidence.ToolRef][]int{}
	for i, t := range p.reported {
		if t.means.Kind == NameTool {
			reported[t.means.Tools[0]] = append(reported[t.means.Tools[0]], i)
		}
	}
	for ref, some := range reported {
		take(some, calls[ref])
	}
}

// level is a property in which a reported use and a call may agree: they agree if both have a key and the
// keys are equal.
type level struct {
	reported func(*Pairing, int) (string, bool)
	call     func(*Pairing, int) (string, bool)
}

// levels returns the properties, starting with the coarsest. Each one divides the classes of the one before
// it, so pairing by the finest one first loses no pair of a coarser one.
func levels() []level {
	return []level{
		{
			reported: func(p *Pairing, i int) (string, bool) { return p.reported[i].form, p.reported[i].form != "" },
			call:     func(p *Pairing, i int) (string, bool) { return p.input[i], p.input[i] != "" },
		}, {
			reported: func(p *Pairing, i int) (string, bool) {
				return outcomeKey(p.reported[i].success != nil && *p.reported[i].success), p.reported[i].success != nil
			},
			call: func(p *Pairing, i int) (string, bool) {
				return outcomeKey(p.calls[i].Outcome == evidence.OutcomeOK), true
			},
		}, {
			reported: func(p *Pairing, i int) (string, bool) {
				return textKey(reportedText(p.reported[i].result)), len(p.reported[i].result) > 0
			},
			call: func(p *Pairing, i int) (string, bool) {
				raw := p.result(i)
				return textKey(readContent(raw).text), len(raw) > 0
			},
		},
	}
}

func outcomeKey(ok bool) string {
	if ok {
		return "ok"
	}
	return "failed"
}

// textKey returns the same text for equal texts only; it is short even for long ones.
func textKey(text string) string {
	if len(text) <= maxExcerpt {
		return "is " + text
	}
	sum := sha256.Sum256([]byte(text))
	return "has " + string(sum[:])
}

// result reads the result of a call. It keeps an error for Err.
func (p *Pairing) result(call int) json.RawMessage {
	raw, err := p.calls[call].Result.Raw()
	p.err = cmp.Or(p.err, err)
	return raw
}

// Err returns the first error from reading a result. The pairing is then unreliable.
func (p *Pairing) Err() error { return p.err }

// refine pairs uses and calls that have the same key of the first level. Among these, it first pairs those
// that have the same key of the next level too.
func (p *Pairing) refine(reported, calls []int, levels []level) {
	if len(reported) == 0 || len(calls) == 0 {
		return
	}
	reportedBy, callsBy := map[string][]int{}, map[string][]int{}
	for _, i := range reported {
		if key, ok := levels[0].reported(p, i); ok {
			reportedBy[key] = append(reportedBy[key], i)
		}
	}
	for _, i := range calls {
		if key, ok := levels[0].call(p, i); ok {
			callsBy[key] = append(callsBy[key], i)
		}
	}
	for key, some := range reportedBy {
		calls := callsBy[key]
		if len(levels) > 1 && len(some)+len(calls) > 2 {
			p.refine(some, calls, levels[1:])
		}
		p.inOrder(only(some, func(i int) bool { return p.call[i] == none }), p.free(calls))
	}
}

func (p *Pairing) inOrder(reported, calls []int) {
	for i := range min(len(reported), len(calls)) {
		p.call[reported[i]], p.taken[calls[i]] = calls[i], true
	}
}

func (p *Pairing) free(calls []int) []int {
	return only(calls, func(i int) bool { return !p.taken[i] })
}

func only(all []int, keep func(int) bool) []int {
	return slices.DeleteFunc(slices.Clone(all), func(i int) bool { return !keep(i) })
}

// builtin reports whether a reported use may be one of the agent's own tools.
func (p *Pairing) builtin(i int) bool {
	means := p.reported[i].means
	return !means.claims() || means.Bare && p.call[i] == none && !p.namesTools
}

// claim returns a reported use in the form in which it is recorded.
func (p *Pairing) claim(i int) evidence.Claim {
	t := p.reported[i]
	c := evidence.Claim{Number: i + 1, ID: t.id, Name: t.name, Arguments: validJSON(t.arguments), Tools: t.means.Tools}
	if p.call[i] != none {
		c.Call = p.calls[p.call[i]].Seq
	}
	return c
}

func validJSON(raw json.RawMessage) json.RawMessage {
	if jsontext.Valid(raw) {
		return raw
	}
	return nil
}

// unreported returns the numbers of the calls that are not in the transcript.
func (p *Pairing) unreported() []int {
	var seqs []int
	for i, call := range p.calls {
		if !p.taken[i] && !isRepeated(call) {
			seqs = append(seqs, call.Seq)
		}
	}
	slices.SortFunc(seqs, cmp.Compare)
	return seqs
}

// ambiguous pairs uses that have ambiguous names with the remaining calls, by a maximum matching with
// augmenting paths.
func (p *Pairing) ambiguous() {
	m := newMatching(p)
	for i, t := range p.reported {
		if t.means.Kind == NameAmbiguous {
			m.add(i)
		}
	}
	for call, use := range m.holder {
		if use != none {
			p.call[use], p.taken[call] = call, true
		}
	}
}
