package capture

import (
	"encoding/json"
	"strings"

	"github.com/waza-isolate/waza/evidence"
	"github.com/waza-isolate/waza/internal/jsontext"
)

// Narration is where the transcript tells of MCP calls otherwise than they were. It takes
// both for whole; whoever knows that they are not says so in its gaps.
func (p *Pairing) Narration() evidence.Narration {
	n := evidence.Narration{Unreported: p.unreported(), Tools: p.tools}
	for i, t := range p.told {
		if !t.means.claims() {
			continue
		}
		claim := p.claim(i)
		switch {
		case claim.Call == 0 && t.means.Bare && p.namesServers:
			continue // a tool of the agent's own
		case claim.Call == 0 && t.means.Bare && !p.namesTools:
			n.Ambiguous = append(n.Ambiguous, claim)
		case claim.Call == 0:
			n.Unbacked = append(n.Unbacked, claim)
		case t.means.Kind == NameAmbiguous:
			n.Ambiguous = append(n.Ambiguous, claim)
		default:
			n.Differs = append(n.Differs, p.differences(claim, i)...)
		}
		n.Told++
	}
	return n
}

// differences are what a telling says otherwise than its call was.
func (p *Pairing) differences(claim evidence.Claim, i int) []evidence.Difference {
	t, call := p.told[i], p.calls[p.call[i]]
	var found []evidence.Difference
	differ := func(in, says, was string) {
		says, was = parting(says, was)
		found = append(found, evidence.Difference{Claim: claim, In: in, Says: says, Was: was})
	}
	if input := t.input(); len(input) > 0 && (t.form == "" || t.form != p.input[p.call[i]]) {
		differ(evidence.DiffersArguments, compact(input), compact(call.Arguments))
	}
	ok := call.Outcome == evidence.OutcomeOK
	if t.success != nil && *t.success != ok {
		says := "failed"
		if *t.success {
			says = string(evidence.OutcomeOK)
		}
		differ(evidence.DiffersOutcome, says, string(call.Outcome))
	}
	if !sameResult(t.result, call) {
		differ(evidence.DiffersResult, toldText(t.result), readContent(call.Result).text)
	}
	return found
}

// compact is JSON on one line with its keys in order, so that two values part where
// they differ; or the text as it came.
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
	// maxExcerpt is how many bytes of what differs are kept, and beforeParting how
	// many of those may come before the two part.
	maxExcerpt    = 160
	beforeParting = 40
)

// parting cuts two texts down to where they part.
func parting(a, b string) (string, string) {
	from := max(0, commonPrefix(a, b)-beforeParting)
	if max(len(a), len(b)) <= maxExcerpt {
		from = 0
	}
	return excerpt(a, from), excerpt(b, from)
}

func excerpt(s string, from int) string {
	cut := s[from:min(len(s), from+maxExcerpt)]
	if from > 0 {
		cut = "…" + cut
	}
	if from+maxExcerpt < len(s) {
		cut += "…"
	}
	return strings.ToValidUTF8(cut, "")
}
