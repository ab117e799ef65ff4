// Package record makes a cassette from the evidence of trials: the requests to servers, models and others,
// and their answers, so that a cassette can replace them.
//
// The content of a cassette depends only on requests and answers, not on times or places.
package record

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"

	"github.com/waza-isolate/waza/evidence"
	"github.com/waza-isolate/waza/evidence/cassette"
	"github.com/waza-isolate/waza/grading/match"
	"github.com/waza-isolate/waza/internal/jsontext"
	"github.com/waza-isolate/waza/model/recorded"
)

// recorder returns the sides of a kind that a trial used, with entries in the order of the requests, and a
// sentence for each thing that is left out. An entry without times always answers. A recorder returns an
// error if a request or an answer cannot be played.
type recorder func(dir evidence.Dir, t evidence.Trial) (sides map[string]*cassette.Side, left []string, err error)

var recorders = map[cassette.Kind]recorder{cassette.Servers: servers, cassette.Judges: judges, cassette.Models: models}

func models(dir evidence.Dir, _ evidence.Trial) (map[string]*cassette.Side, []string, error) {
	return recorded.Record(dir.ModelCalls())
}

// stepsOf returns the steps of a trial, those of its checkpoints first.
func stepsOf(dir evidence.Dir, t evidence.Trial) (all []evidence.Step, err error) {
	var dirs []evidence.Dir
	for _, c := range t.Checkpoints {
		dirs = append(dirs, dir.Checkpoint(c.AfterTurn))
	}
	for _, at := range append(dirs, dir) {
		steps, err := at.Steps()
		if err != nil {
			return nil, err
		}
		all = append(all, steps...)
	}
	return all, nil
}

// ErrNothing is the error for trials with nothing to record.
var ErrNothing = errors.New("no trial of the run shows anything to record")

// Trials makes a cassette from trials. left describes what is left out, in sentences. The error names each
// thing that cannot be played.
func Trials(dirs []evidence.Dir) (c *cassette.Cassette, left []string, err error) {
	var errs []error
	all := map[cassette.Kind]map[string]tasks{}
	for _, dir := range dirs {
		t, err := dir.Trial()
		if err != nil {
			return nil, nil, err
		}
		name := fmt.Sprintf("%s/%d", t.Task, t.Number)
		if !t.Class.OfAgent() {
			left = append(left, fmt.Sprintf("%s ended as %s", name, t.Class))
			continue
		}
		for _, kind := range slices.Sorted(maps.Keys(recorders)) {
			sides, without, err := recorders[kind](dir, t)
			for _, line := range without {
				left = append(left, name+": "+line)
			}
			if err != nil {
				errs = append(errs, fmt.Errorf("%s: %w", name, err))
				continue
			}
			for side, is := range sides {
				if all[kind] == nil {
					all[kind] = map[string]tasks{}
				}
				if all[kind][side] == nil {
					all[kind][side] = tasks{}
				}
				all[kind][side][t.Task] = append(all[kind][side][t.Task], ofTrial{t.Number, is})
			}
		}
	}
	if err := errors.Join(errs...); err != nil {
		return nil, left, err
	}
	if len(all) == 0 {
		return nil, left, ErrNothing
	}
	c = &cassette.Cassette{}
	for kind, sides := range all {
		for name, of := range sides {
			if kind == cassette.Servers {
				agree(of)
			}
			of.addTo(c, kind, name)
		}
	}
	return c, left, nil
}

// tasks holds the recorded sides of trials for one server, model or command, by task.
type tasks map[string][]ofTrial

type ofTrial struct {
	number int
	side   *cassette.Side
}

// addTo adds a side to a cassette. Answers that are the same in all tasks go to the side for all tasks,
// others to the side of each task.
func (all tasks) addTo(c *cassette.Cassette, kind cassette.Kind, name string) {
	merged := map[string]*cassette.Side{}
	answers := map[string]map[string]bool{} // keyed by the request
	for task, trials := range all {
		merged[task] = merge(trials)
		for _, e := range merged[task].Entries {
			if e.Times == 0 {
				if answers[asked(e)] == nil {
					answers[asked(e)] = map[string]bool{}
				}
				answers[asked(e)][line(e)] = true
			}
		}
	}
	shared := &cassette.Side{}
	isShared := func(e cassette.Entry) bool { return e.Times == 0 && len(answers[asked(e)]) == 1 }
	for _, task := range slices.Sorted(maps.Keys(merged)) {
		own := merged[task]
		shared.Find = own.Find
		for _, e := range own.Entries {
			if isShared(e) && !slices.ContainsFunc(shared.Entries, func(s cassette.Entry) bool { return line(s) == line(e) }) {
				shared.Entries = append(shared.Entries, e)
			}
		}
		if own.Entries = slices.DeleteFunc(own.Entries, isShared); len(own.Entries) == 0 {
			continue
		}
		if c.Tasks == nil {
			c.Tasks = map[string]*cassette.Cassette{}
		}
		if c.Tasks[task] == nil {
			c.Tasks[task] = &cassette.Cassette{}
		}
		c.Tasks[task].Add(kind, name, own)
	}
	if len(shared.Entries) > 0 {
		c.Add(kind, name, shared)
	}
}

// merge combines the sides of a task's trials. If they differ, each entry is for one trial.
func merge(trials []ofTrial) *cassette.Side {
	slices.SortFunc(trials, func(a, b ofTrial) int { return a.number - b.number })
	merged := &cassette.Side{Find: trials[0].side.Find}
	counted := map[string]bool{}
	standing := map[string][]string{} // answers that always apply, by request
	for _, t := range trials {
		var all string
		for _, e := range t.side.Entries {
			if e.Times > 0 {
				all += line(e) + "\n"
			} else if answer := line(e); !slices.Contains(standing[asked(e)], answer) {
				standing[asked(e)] = append(standing[asked(e)], answer)
			}
		}
		counted[all] = true
	}
	var always []cassette.Entry
	for i, t := range trials {
		for _, e := range t.side.Entries {
			differs := len(counted) > 1
			if e.Times == 0 {
				differs = len(standing[asked(e)]) > 1
			}
			if differs {
				e.Kind = maps.Clone(e.Kind)
				e.Kind["trial"] = json.RawMessage(strconv.Itoa(t.number))
			}
			switch {
			case e.Times == 0:
				if !slices.ContainsFunc(always, func(a cassette.Entry) bool { return line(a) == line(e) }) {
					always = append(always, e)
				}
			case differs || i == 0:
				merged.Entries = append(merged.Entries, e)
			}
		}
	}
	merged.Entries = append(repeated(merged.Entries), always...)
	return merged
}

// repeated merges entries that are equal and follow each other among the entries of their kind.
func repeated(entries []cassette.Entry) (all []cassette.Entry) {
	last := map[string]int{} // index of the last entry of a kind
	for _, e := range entries {
		kind := textOf(e.Kind)
		if i, known := last[kind]; known {
			one := all[i]
			one.Times = e.Times
			if line(one) == line(e) {
				all[i].Times += e.Times
				continue
			}
		}
		last[kind] = len(all)
		all = append(all, e)
	}
	return all
}

// asked returns the conditions of an entry as text.
func asked(e cassette.Entry) string { return textOf([]match.Matchers{e.Kind, e.Match}) }

// line returns an entry as text.
func line(e cassette.Entry) string { return textOf(e) }

func textOf(value any) string {
	data, _ := jsontext.Marshal(value) // recorded entries can always be encoded
	return string(data)
}
