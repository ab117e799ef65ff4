package grading

import (
	"fmt"
	"iter"

	"github.com/waza-isolate/waza/evidence"
	"github.com/waza-isolate/waza/model/dialect"
)

// models are the trial's model calls, ending in an error where some are missing; nil
// where no gateway was in their way.
func (s *subject) models() iter.Seq2[evidence.ModelCall, error] {
	if !s.dir.Gateway(s.trial) {
		return nil
	}
	return func(yield func(evidence.ModelCall, error) bool) {
		for call, err := range s.dir.ModelCalls() {
			if !yield(call, err) {
				return
			}
		}
		if err := s.kept(evidence.GapModels); err != nil {
			yield(evidence.ModelCall{}, err)
		}
	}
}

// tokens is what the trial's model calls took. It fails where that is not known.
func (s *subject) tokens() (dialect.Usage, error) {
	var total dialect.Usage
	models := s.models()
	if models == nil {
		return total, fmt.Errorf("%w: no model gateway was in the way, so nothing tells how many tokens the agent used; declare config.models", errEvidence)
	}
	for call, err := range models {
		switch {
		case err != nil:
			return total, fmt.Errorf("%w: %s", errEvidence, s.explain(err))
		case call.Usage != nil:
			total = total.Plus(*call.Usage)
		case call.IsTurn() && call.Status/100 == 2 && len(call.Response) > 0:
			return total, fmt.Errorf("%w: the provider told no tokens of model call %d", errEvidence, call.Seq)
		}
	}
	return total, nil
}
