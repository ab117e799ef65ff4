package capture

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/waza-isolate/waza/evidence"
	"github.com/waza-isolate/waza/internal/jsontext"
	"github.com/waza-isolate/waza/internal/text"
)

// Narration returns the differences between the transcript and the recorded MCP calls. It
// assumes that both are complete; the caller adds known gaps.
func (p *Pairing) Narration() evidence.Narration {
	n := evidence.Narration{Unreported: p.unreported(), Tools: p.tools}
	for i, t := range p.reported {
		if !t.means.claims() {
			continue
		}
		claim := p.claim(i)
		switch {
		case claim.Call == 0 && t.means.Bare && p.namesServers:
			continue // one of the agent's own tools
		case claim.Call == 0 && t.means.Bare && !p.namesTools:
			n.Ambiguous = append(n.Ambiguous, claim)
		case claim.Call == 0:
			n.Unbacked = append(n.Unbacked, claim)
		case t.means.Kind == NameAmbiguous:
			n.Ambiguous = append(n.Ambiguous, claim)
		default:
			n.Differs = append(n.Differs, p.differences(claim, i)...)
		}
		n.Reported++
	}
	return n
}

// differences lists how a use in the transcript differs from its call.
func (p *Pairing) differences(claim evidence.Claim, i int) []evidence.Difference {
	t, call := p.reported[i], p.calls[p.call[i]]
	var found []evidence.Difference
	differ := func(in, claimed, actual string) {
		claimed, actual = parting(claimed, actual, maxExcerpt, beforeParting)
		found = append(found, evidence.Difference{Claim: claim, In: in, Claimed: claimed, Actual: actual})
	}
	if input := t.input(); len(input) > 0 && (t.form == "" || t.form != p.input[p.call[i]]) {
		differ(evidence.DiffersArguments, compact(input), compact(call.Arguments))
	}
	ok := call.Outcome == evidence.OutcomeOK
	if t.success != nil && !*t.success && p.disturbed(call) {
		return found
	}
	if t.success != nil && *t.success != ok {
		claimed := "failed"
		if *t.success {
			claimed = string(evidence.OutcomeOK)
		}
		differ(evidence.DiffersOutcome, claimed, string(call.Outcome))
	}
	if result := p.result(p.call[i]); !sameResult(t.result, result) {
		differ(evidence.DiffersResult, reportedText(t.result), readContent(result).text)
	}
	return found
}

// disturbed reports whether the agent may not have read the answer to a call because waza injected a fault
// into another call: a client that gets no answer, or an invalid one, may end the session with all pending
// calls.
func (p *Pairing) disturbed(call evidence.Call) bool {
	return slices.ContainsFunc(p.calls, func(other evidence.Call) bool {
		return other.Fault != "" && other.Outcome.Unanswered() && other.Seq != call.Seq &&
			other.Server == call.Server && other.Conn == call.Conn && other.RequestFrame < call.ResponseFrame
	})
}

// compact returns a JSON object on one line with sorted keys, so that equal values have
// equal text. It returns other values unchanged.
func compact(raw json.RawMessage) string {
	var v map[string]json.RawMessage
	if jsontext.Unmarshal(raw, &v) != nil || v == nil {
		return string(raw)
	}
	sorted, err := json.Marshal(v)
	if err != nil {
		return string(raw)
	}
	return string(sorted)
}

const (
	// maxExcerpt is the maximum size, in bytes, of excerpts of two texts that differ; beforeParting is the
	// size of the part before the first difference.
	maxExcerpt    = 160
	beforeParting = 40
)

// parting cuts two texts to at most most bytes each. If one is longer, both excerpts begin before bytes
// before the first difference.
func parting(a, b string, most, before int) (string, string) {
	from := text.Fork(a, b, most, before)
	return excerpt(a, from, most), excerpt(b, from, most)
}

// excerpt returns at most most bytes of a text, starting at offset from, with a mark at each end that was
// cut.
func excerpt(s string, from, most int) string {
	from = min(from, len(s))
	mark := ""
	if from > 0 {
		mark = text.Ellipsis
	}
	return mark + text.Shorten(strings.ToValidUTF8(s[from:min(len(s), from+most+utf8.UTFMax)], ""), most)
}

// maxNamed is the maximum number of claims or calls named in a sentence.
const maxNamed = 5

// Describe describes the differences between n and the trial's calls, with one sentence for
// each kind.
func Describe(n evidence.Narration, calls []evidence.Call) (sentences []string) {
	call := func(seq int) string {
		if seq < 1 || seq > len(calls) {
			return fmt.Sprintf("call %d", seq)
		}
		call := calls[seq-1]
		return fmt.Sprintf("call %d, %s/%s %s, %s", seq, call.Server, call.Tool, brief(call.Arguments), call.Outcome)
	}
	add := func(count int, format, one, many, listed string) {
		if count > 0 {
			sentences = append(sentences, fmt.Sprintf(format, counted(count, one, many), listed))
		}
	}
	add(len(n.Unbacked), "the agent reports %s never made: %s", "call that was", "calls that were", listed(n.Unbacked, claimText))
	add(len(n.Unreported), "the agent does not report %s made: %s", "call that it", "calls that it", listed(n.Unreported, call))
	add(len(n.Differs), "the agent misreports %s: %s", "detail", "details", listed(n.Differs, differenceText))
	add(len(n.Ambiguous), "it is not clear which tool the agent means in %s: %s", "call", "calls", listed(n.Ambiguous, ambiguousText))
	return sentences
}

func counted(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, many)
}

func listed[T any](all []T, describe func(T) string) string {
	return strings.Join(text.Some(all, maxNamed, describe), "; ")
}

func claimText(c evidence.Claim) string {
	return fmt.Sprintf("%s %s", excerpt(c.Name, 0, maxExcerpt), brief(c.Arguments))
}

func ambiguousText(c evidence.Claim) string {
	var tools []string
	for _, ref := range c.Tools {
		tools = append(tools, ref.Server+"/"+ref.Tool)
	}
	if len(tools) == 1 {
		tools = append(tools, "a tool of its own")
	}
	return fmt.Sprintf("%s may be %s", excerpt(c.Name, 0, maxExcerpt), strings.Join(tools, " or "))
}

func differenceText(d evidence.Difference) string {
	return fmt.Sprintf("%s of call %d (%s): says %s, was %s", d.In, d.Call, excerpt(d.Name, 0, maxExcerpt), d.Claimed, d.Actual)
}

// maxBrief is the maximum number of bytes of arguments in a sentence.
const maxBrief = 100

func brief(arguments json.RawMessage) string {
	s := compact(arguments)
	if s == "" {
		s = "{}"
	}
	return text.Shorten(s, maxBrief)
}
