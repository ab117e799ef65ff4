package grading

import (
	"encoding/json"
	"fmt"

	"github.com/waza-isolate/waza/capture"
	"github.com/waza-isolate/waza/evidence"
)

// Ask is something to be done for a grader once the agent has stopped. What comes of
// it is a step of the trial, and all that grading sees of it.
type Ask struct {
	Grader string // its name
	Kind   string // as in [evidence.Step]
	// What is an evidence.ProgramAsk, an evidence.CallAsk or an evidence.FileAsk.
	What any
}

// Raw is what is asked as a step has it.
func (a Ask) Raw() (json.RawMessage, error) { return evidence.Marshal(a.What) }

// asker is a grader that needs something done.
type asker interface {
	// asks is what it needs, without doubles.
	asks() []any
}

// Asks is all that graders need done, in their order. A grader whose config cannot be
// read needs nothing: its verdict says why.
func Asks(specs []evidence.GraderSpec) []Ask {
	var all []Ask
	for _, spec := range specs {
		g, err := load(spec)
		if err != nil {
			continue
		}
		if needy, ok := g.(asker); ok {
			for _, what := range needy.asks() {
				all = append(all, askOf(spec.Name, what))
			}
		}
	}
	return all
}

func askOf(name string, what any) Ask {
	switch what.(type) {
	case evidence.CallAsk:
		return Ask{name, evidence.StepCall, what}
	case evidence.FileAsk:
		return Ask{name, evidence.StepFiles, what}
	}
	return Ask{name, evidence.StepProgram, what}
}

// answer reads what came of a step that the grader asked for. It fails where the step
// is not there, or had no answer.
func (s *subject) answer(what, into any) error {
	ask := askOf(s.grader, what)
	if s.stepsErr != nil {
		return fmt.Errorf("%w: %s", errEvidence, s.explain(s.stepsErr))
	}
	raw, err := ask.Raw()
	if err != nil {
		return err
	}
	for _, step := range s.steps {
		if step.Grader != ask.Grader || step.Kind != ask.Kind || !capture.Equal(step.Ask, raw) {
			continue
		}
		if step.Error != "" {
			return fmt.Errorf("%w: %s", errEvidence, step.Error)
		}
		if err := json.Unmarshal(step.Answer, into); err != nil {
			return fmt.Errorf("%w: %s: the answer to grader %q cannot be read: %v", errEvidence, evidence.StepsFile, ask.Grader, err)
		}
		return nil
	}
	return fmt.Errorf("%w: %s has no answer to what this grader asks: its config was changed since, or the trial ended before it was asked; run the trial again", errEvidence, evidence.StepsFile)
}
