package grading

import (
	"slices"

	"github.com/waza-isolate/waza/capture"
	"github.com/waza-isolate/waza/evidence"
)

// narrate holds the transcript against the calls. What missing evidence leaves open is
// not listed: a claim of a call that may have gone unseen, and calls that a part of the
// transcript which cannot be read may tell of.
func (s *subject) narrate(paired *capture.Pairing, transcript []evidence.TranscriptEvent) evidence.Narration {
	n := paired.Narration()
	n.Tokens = s.toldTokens(transcript)
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

// toldTokens is what the transcript tells of tokens, beside what is known of them; nil
// where it tells nothing.
func (s *subject) toldTokens(transcript []evidence.TranscriptEvent) *evidence.Tokens {
	var told *evidence.Tokens
	for _, event := range transcript {
		if event.Usage == nil {
			continue
		}
		if told == nil {
			told = &evidence.Tokens{}
		}
		told.Told = told.Told.Plus(*event.Usage)
	}
	if told == nil {
		return nil
	}
	if wire, err := s.tokens(); err == nil {
		told.Wire = &wire
	}
	return told
}
