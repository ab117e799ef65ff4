package report

import (
	"github.com/waza-isolate/waza/evidence"
	"github.com/waza-isolate/waza/report/view"
)

// strip is a bar of parts, side by side, with what each is of.
type strip struct {
	Parts []stripPart
	Of    int
}

type stripPart struct {
	Mark
	Count    int
	At, Wide float64 // on a scale of 0 to 100
}

// add puts a part behind the others; one of nothing is none.
func (s *strip) add(m Mark, count int) {
	if count > 0 {
		s.Parts = append(s.Parts, stripPart{Mark: m, Count: count})
		s.Of += count
	}
}

// scaled is s with its parts in their places.
func (s strip) scaled() strip {
	at := 0.0
	for i := range s.Parts {
		p := &s.Parts[i]
		p.At, p.Wide = at, 100*float64(p.Count)/float64(s.Of)
		at += p.Wide
	}
	return s
}

// missingMark is that of a trial without an outcome.
func missingMark() Mark { return Mark{"none", "no outcome", "soft"} }

// trialStrip shows how a run's trials ended.
func trialStrip(r view.Run) strip {
	var s strip
	outcomes := r.Outcomes()
	for _, class := range evidence.Classes() {
		s.add(outcomeOf(class), outcomes[class])
	}
	s.add(missingMark(), r.Missing())
	return s.scaled()
}
