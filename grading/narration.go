package grading

import (
	"slices"

	"github.com/waza-isolate/waza/runner/capture"
	"github.com/waza-isolate/waza/runner/evidence"
)

// narrate holds the transcript against the calls. What missing evidence leaves open is
// not listed: a claim of a call that may have gone unseen, and calls that a part of the
// transcript which cannot be read may tell of.
func (s *subject) narrate(paired *capture.Pairing) evidence.Narration {
	n := paired.Narration()
	for _, gap := range s.gaps {
		n.Gaps = append(n.Gaps, gap.String())
		n.Unbacked = slices.DeleteFunc(n.Unbacked, func(c evidence.Claim) bool {
			return gap.Server == "" || slices.ContainsFunc(c.Tools, func(ref evidence.ToolRef) bool { return ref.Server == gap.Server })
		})
	}
	if s.transcriptGap != nil {
		n.Gaps = append(n.Gaps, s.transcriptGap.Error())
		n.Unreported = nil
	}
	return n
}
