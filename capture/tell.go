package capture

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/waza-isolate/waza/evidence"
	"github.com/waza-isolate/waza/internal/text"
)

// Sentences say in words where a narration and the calls differ: one for each kind,
// empty where there is nothing of it.
type Sentences struct {
	Unbacked, Unreported, Differs, Ambiguous string
}

// maxNamed is how many claims or calls a sentence names.
const maxNamed = 5

// Tell says in words where n differs from calls, which are the trial's.
func Tell(n evidence.Narration, calls []evidence.Call) Sentences {
	var s Sentences
	if k := len(n.Unbacked); k > 0 {
		s.Unbacked = fmt.Sprintf("the agent tells of %s never made: %s", counted(k, "call that was", "calls that were"), listed(n.Unbacked, claimText))
	}
	if k := len(n.Unreported); k > 0 {
		s.Unreported = fmt.Sprintf("the agent does not tell of %s made: %s", counted(k, "call that it", "calls that it"), listed(n.Unreported, func(seq int) string {
			if seq < 1 || seq > len(calls) {
				return fmt.Sprintf("call %d", seq)
			}
			call := calls[seq-1]
			return fmt.Sprintf("call %d, %s/%s %s, %s", seq, call.Server, call.Tool, brief(call.Arguments), call.Outcome)
		}))
	}
	if k := len(n.Differs); k > 0 {
		s.Differs = fmt.Sprintf("the agent tells %s otherwise than it was: %s", counted(k, "thing", "things"), listed(n.Differs, differenceText))
	}
	if k := len(n.Ambiguous); k > 0 {
		s.Ambiguous = fmt.Sprintf("it is not clear which tool the agent means in %s: %s", counted(k, "call", "calls"), listed(n.Ambiguous, ambiguousText))
	}
	return s
}

// All are the sentences that there are.
func (s Sentences) All() []string {
	var all []string
	for _, sentence := range []string{s.Unbacked, s.Unreported, s.Differs, s.Ambiguous} {
		if sentence != "" {
			all = append(all, sentence)
		}
	}
	return all
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
	return fmt.Sprintf("%s %s", excerpt(c.Name, 0), brief(c.Arguments))
}

func ambiguousText(c evidence.Claim) string {
	var tools []string
	for _, ref := range c.Tools {
		tools = append(tools, ref.Server+"/"+ref.Tool)
	}
	if len(tools) == 1 {
		tools = append(tools, "a tool of its own")
	}
	return fmt.Sprintf("%s may be %s", excerpt(c.Name, 0), strings.Join(tools, " or "))
}

func differenceText(d evidence.Difference) string {
	return fmt.Sprintf("%s of call %d (%s): says %s, was %s", d.In, d.Call, excerpt(d.Name, 0), d.Says, d.Was)
}

// maxBrief is how many bytes of arguments a sentence shows.
const maxBrief = 100

func brief(arguments json.RawMessage) string {
	s := compact(arguments)
	if s == "" {
		s = "{}"
	}
	return text.Shorten(s, maxBrief)
}
