package grading

import (
	"github.com/waza-isolate/waza/evidence"
	"github.com/waza-isolate/waza/evidence/capture"
)

// GradeFrames runs one grader over frames that are on no disk.
func GradeFrames(trial evidence.Trial, frames []evidence.Frame, spec evidence.GraderSpec) (evidence.Verdict, error) {
	s := &subject{trial: trial}
	for _, server := range trial.Servers {
		s.servers = append(s.servers, server.Name)
	}
	captured, err := capture.Calls(func(yield func(evidence.Frame, error) bool) {
		for i, frame := range frames {
			frame.Seq = int64(i + 1)
			if !yield(frame, nil) {
				return
			}
		}
	})
	s.calls, s.gaps, s.reads, s.changes = captured.Calls, captured.Gaps, captured.Reads, changesOf(captured.Catalogs)
	v, _ := verdict(spec, s)
	return v, err
}
