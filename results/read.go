package results

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/waza-isolate/waza/evidence"
)

// ReadOutline reads a results.json, one value at a time. Whatever it says is bounded,
// and what it does not say is left out; what cannot be one is an error.
func ReadOutline(r io.Reader) (Outline, error) {
	w := &outlineReader{walker: newWalker(r), tasks: map[string]bool{}}
	err := w.members(map[string]func() error{
		"eval_name": w.text(&w.outline.EvalName),
		"config": func() error {
			return w.members(map[string]func() error{
				"engine_type": w.text(&w.outline.Agent),
				"model_id":    w.text(&w.outline.Model),
				"isolated":    w.truth(&w.outline.Isolated),
				"timeout_sec": w.count(&w.outline.TimeoutSec),
				"judge_model": w.text(&w.outline.Judge),
				"no_attacks":  w.truth(&w.outline.NoAttacks),
			})
		},
		"servers": func() error { return w.elements(w.server) },
		"tasks":   func() error { w.hasTasks = true; return w.elements(w.task) },
	})
	switch {
	case err == nil && !w.hasTasks:
		err = errors.New("it names no tasks")
	case err == nil && !w.ended():
		err = errors.New("more stands behind it")
	}
	if err != nil {
		return Outline{}, fmt.Errorf("no results.json: %w", err)
	}
	return w.outline, nil
}

type outlineReader struct {
	*walker
	outline  Outline
	hasTasks bool
	tasks    map[string]bool // by id
	trials   int             // in all
}

// server reads which catalogs of tools a server had.
func (w *outlineReader) server() error {
	var name string
	var digests []string
	err := w.members(map[string]func() error{
		"name": w.text(&name),
		"catalogs": func() error {
			return w.elements(func() error {
				var digest string
				err := w.members(map[string]func() error{"sha256": w.text(&digest)})
				if err != nil {
					return err
				}
				digests = append(digests, digest)
				return w.more()
			})
		},
	})
	if err != nil || name == "" {
		return err
	}
	for _, digest := range digests {
		w.outline.addCatalog(name, digest)
	}
	return w.more()
}

func (w *outlineReader) task() error {
	var task TaskOutline
	err := w.members(map[string]func() error{
		"test_id": w.text(&task.ID),
		"runs":    func() error { return w.elements(func() error { return w.trial(&task) }) },
	})
	switch {
	case err != nil:
		return err
	case task.ID == "":
		return errors.New("a task has no test_id")
	case w.tasks[task.ID]:
		return fmt.Errorf("two tasks are called %s", task.ID)
	}
	w.tasks[task.ID] = true
	w.outline.Tasks = append(w.outline.Tasks, task)
	return w.more()
}

func (w *outlineReader) trial(of *TaskOutline) error {
	var trial TrialOutline
	var status, outcome, attack string
	var took int64
	err := w.members(map[string]func() error{
		"status":      w.text(&status),
		"outcome":     w.text(&outcome),
		"duration_ms": w.count(&took),
		"session_digest": func() error {
			return w.members(map[string]func() error{
				"mcp_tool_calls": w.count(&trial.MCPCalls),
				"usage":          func() error { return w.usage(&trial) },
			})
		},
		"models": func() error { return w.models(&trial) },
		"attack": func() error { return w.members(map[string]func() error{"result": w.text(&attack)}) },
	})
	if err != nil {
		return err
	}
	trial.Duration = time.Duration(min(took, int64(maxTook/time.Millisecond))) * time.Millisecond
	if trial.Outcome, err = classOf(outcome, Status(status)); err != nil {
		return err
	}
	if trial.Attack, err = attackEnd(attack); err != nil {
		return err
	}
	of.Trials = append(of.Trials, trial)
	return w.more()
}

// maxTook is the most that a trial is said to have taken.
const maxTook = 1000 * 24 * time.Hour

// models reads what model calls of a trial took, by the gateway's account.
func (w *outlineReader) models(of *TrialOutline) error {
	m := &ModelFigures{}
	of.Models = m
	return w.members(map[string]func() error{
		"cost": w.amount(&m.Cost),
		"tokens": func() error {
			return w.members(map[string]func() error{"input": w.count(&m.InputTokens), "output": w.count(&m.OutputTokens)})
		},
	})
}

// usage reads the same by the agent's account, which upstream has. It counts where there
// is no other.
func (w *outlineReader) usage(of *TrialOutline) error {
	var m ModelFigures
	err := w.members(map[string]func() error{"input_tokens": w.count(&m.InputTokens), "output_tokens": w.count(&m.OutputTokens)})
	if of.Models == nil {
		of.Models = &m
	}
	return err
}

// more counts one more of what the outline holds.
func (w *outlineReader) more() error {
	w.trials++
	if w.trials > maxListed {
		return fmt.Errorf("more than %d tasks and trials", maxListed)
	}
	return nil
}

// attackEnd is what came of a trial's attack; empty where there was none.
func attackEnd(said string) (evidence.AttackEnd, error) {
	switch end := evidence.AttackEnd(said); end {
	case "", evidence.AttackSucceeded, evidence.AttackResisted, evidence.AttackNotDelivered, evidence.AttackUnknown:
		return end, nil
	}
	return "", fmt.Errorf("an attack ended as %q, which is no end of one", said)
}

// classOf is how a trial ended, in our word or, where there is none, in upstream's.
func classOf(outcome string, status Status) (evidence.Class, error) {
	if class := evidence.Class(outcome); slices.Contains(evidence.Classes(), class) {
		return class, nil
	}
	if outcome == "" {
		switch status {
		case StatusPassed:
			return evidence.ClassPass, nil
		case StatusFailed:
			return evidence.ClassFail, nil
		case StatusError:
			return evidence.ClassError, nil
		}
	}
	return "", fmt.Errorf("a trial ended as %q, which is no outcome", cmp.Or(outcome, string(status)))
}
