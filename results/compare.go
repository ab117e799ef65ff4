package results

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/waza-isolate/waza/evidence"
)

// Comparison compares runs.
type Comparison struct {
	Runs []ComparedRun `json:"runs"`
	// Pairs hold each further run against the first. One that broke is in none.
	Pairs []Pair `json:"pairs"`
	// Differences are those of tasks in all pairs, what to look at first.
	Differences []Difference `json:"differences"`
}

// ComparedRun is a run in figures. Trials that ended as infra count for nothing.
type ComparedRun struct {
	Run              int            `json:"run"` // from 1
	EvalName         string         `json:"eval_name"`
	Agent            string         `json:"agent"`
	Model            string         `json:"model,omitempty"`
	Path             string         `json:"path,omitempty"`  // where its results are
	Error            string         `json:"error,omitempty"` // why there are none, or not all
	Isolated         bool           `json:"isolated"`
	Passed           int            `json:"passed"`
	Trials           int            `json:"trials"`
	Infra            int            `json:"infra,omitempty"` // trials that say nothing of the agent
	PassRate         *Estimate      `json:"pass_rate"`       // of trials; nil without any
	MCPCalls         int64          `json:"mcp_tool_calls"`
	Models           *ModelFigures  `json:"models,omitempty"`
	MedianDurationMS *float64       `json:"median_duration_ms,omitempty"` // of agents' times
	Attacks          *Rate          `json:"attacks_succeeded,omitempty"`  // of those that succeeded or were resisted
	Tasks            []ComparedTask `json:"tasks"`
}

// ComparedTask is a task of a run in figures.
type ComparedTask struct {
	ID     string `json:"test_id"`
	Passed int    `json:"passed"`
	Trials int    `json:"trials"`
	Mark   string `json:"mark"` // how its trial ended, or how many of them passed
	// Attack is succeeded where one succeeded in a trial, which then did not simply pass.
	Attack evidence.AttackOutcome `json:"attack,omitempty"`
	// Over the trials that count; nil where no such trial has the figure.
	PassRate         *Interval `json:"pass_rate,omitempty"` // Wilson's
	MedianDurationMS *float64  `json:"median_duration_ms,omitempty"`
	Tokens           *float64  `json:"tokens,omitempty"` // of a trial, the mean
	Cost             *float64  `json:"cost,omitempty"`   // likewise, in US dollars
}

// Entry is a run to compare.
type Entry struct {
	Outline
	Path  string
	Error string    // why Outline is empty, or not whole
	Made  []Setting // settings that its results do not have
	// LeftOut are tasks of its eval that it was not to run.
	LeftOut []string
}

// Compare compares runs with the first one.
func Compare(entries []Entry) Comparison {
	c := Comparison{Runs: []ComparedRun{}, Pairs: []Pair{}, Differences: []Difference{}}
	for i, entry := range entries {
		c.Runs = append(c.Runs, compared(i+1, entry))
		base, run := c.Runs[0], c.Runs[i]
		if i == 0 || base.broken() || run.broken() {
			continue
		}
		p := pair(base, run)
		p.Unlike = unlike(entries[0], entry)
		c.Pairs = append(c.Pairs, p)
		c.Differences = append(c.Differences, differences(base, run)...)
	}
	slices.SortFunc(c.Differences, ordered)
	return c
}

// Of returns the differences of tasks in one pair, in their order.
func (c Comparison) Of(p Pair) (all []Difference) {
	for _, d := range c.Differences {
		if d.Run == p.Run {
			all = append(all, d)
		}
	}
	return all
}

// TaskIDs returns the tasks of all runs, each once: the first run's, then those that others
// add.
func (c Comparison) TaskIDs() (ids []string) {
	seen := map[string]bool{}
	for _, run := range c.Runs {
		for _, task := range run.Tasks {
			if !seen[task.ID] {
				seen[task.ID] = true
				ids = append(ids, task.ID)
			}
		}
	}
	return ids
}

// Marks returns the mark of each task in each run, by the task's id.
func (c Comparison) Marks() map[string][]string {
	marks, ids := map[string][]string{}, c.TaskIDs()
	for _, run := range c.Runs {
		tasks := byID(run.Tasks)
		for _, id := range ids {
			marks[id] = append(marks[id], tasks.task(id).Mark)
		}
	}
	return marks
}

func (r ComparedRun) broken() bool { return r.Error != "" && len(r.Tasks) == 0 }

func compared(number int, e Entry) ComparedRun {
	r := ComparedRun{
		Run: number, EvalName: e.EvalName, Agent: e.Agent, Model: e.Model, Path: e.Path, Error: e.Error, Isolated: e.Isolated,
		Tasks: []ComparedTask{},
	}
	var passes [][]float64
	var took []time.Duration
	succeeded, resisted := 0, 0
	for _, t := range e.Tasks {
		task := comparedTask(t)
		r.Passed, r.Trials, r.Infra = r.Passed+task.Passed, r.Trials+task.Trials, r.Infra+len(t.Trials)-task.Trials
		r.Tasks = append(r.Tasks, task)
		passes = append(passes, passValues(task.Passed, task.Trials))
		for _, trial := range t.Trials {
			switch trial.Attack.Result {
			case evidence.AttackSucceeded:
				succeeded++
			case evidence.AttackResisted:
				resisted++
			}
			r.MCPCalls += trial.MCPCalls
			r.Models = r.Models.plus(trial.Models())
			if trial.Outcome.OfAgent() {
				took = append(took, time.Duration(trial.DurationMS)*time.Millisecond)
			}
		}
	}
	slices.Sort(took)
	r.PassRate, r.MedianDurationMS, r.Attacks = estimate(passes), median(took), rate(succeeded, succeeded+resisted)
	return r
}

func comparedTask(t TaskOutline) ComparedTask {
	c := ComparedTask{ID: t.ID}
	if c.Passed, c.Trials = t.passed(); c.Trials > 0 {
		i := wilson(c.Passed, c.Trials)
		c.PassRate = &i
	}
	var took []time.Duration
	var tokens, costs []float64
	for _, trial := range t.Trials {
		if trial.Attack.Result == evidence.AttackSucceeded {
			c.Attack = evidence.AttackSucceeded
		}
		if !trial.Outcome.OfAgent() {
			continue
		}
		took = append(took, time.Duration(trial.DurationMS)*time.Millisecond)
		if m := trial.Models(); m != nil {
			tokens = append(tokens, float64(m.InputTokens+m.OutputTokens))
			if m.Cost != nil {
				costs = append(costs, *m.Cost)
			}
		}
	}
	slices.Sort(took)
	c.MedianDurationMS, c.Tokens, c.Cost = median(took), meanOf(tokens), meanOf(costs)
	c.Mark = c.markOf(t.Trials)
	return c
}

// meanOf returns nil without values.
func meanOf(values []float64) *float64 {
	if len(values) == 0 {
		return nil
	}
	m := mean(values)
	return &m
}

// passValues returns 1 for each trial that passed, and 0 for the others.
func passValues(passed, counted int) []float64 {
	values := make([]float64, counted)
	for i := range passed {
		values[i] = 1
	}
	return values
}

// markOf describes how the task's trials ended, including successful attacks.
func (c ComparedTask) markOf(trials []TrialOutline) string {
	ends := fmt.Sprintf("%d/%d", c.Passed, c.Trials)
	switch {
	case len(trials) == 0:
		ends = unknownMark
	case len(trials) == 1 || c.Trials == 0:
		ends = string(trials[0].Outcome)
	}
	switch {
	case c.Attack == "":
		return ends
	case c.Passed == c.Trials:
		return AttackSucceeded
	}
	return ends + ", " + AttackSucceeded
}

// unknownMark is that of a task without a trial.
const unknownMark = "n/a"

// Setting is something that a run was made with, as text. One without a value is not
// known, and compared with none.
type Setting struct{ Name, Value string }

// Unlike is a setting that differs between two runs, as a line of text of limited length.
type Unlike struct {
	What   string `json:"what"`
	Before string `json:"before"`
	After  string `json:"after"`
}

// unlike lists what differs between two runs apart from agents and models, which runs are
// compared for.
func unlike(base, run Entry) (all []Unlike) {
	before := map[string]string{}
	for _, s := range base.settings() {
		before[s.Name] = s.Value
	}
	for _, s := range run.settings() {
		if b := before[s.Name]; b != "" && s.Value != "" && b != s.Value {
			all = append(all, Unlike{What: name(s.Name), Before: name(b), After: name(s.Value)})
		}
	}
	return all
}

// settings returns the settings in the results, and others that are known of the run.
func (e Entry) settings() []Setting {
	all := []Setting{
		{"eval", e.EvalName},
		{"isolated", yes(e.Isolated)},
		{"trials of a task", e.trialsOfTask()},
		{"time limit", seconds(e.TimeoutSec)},
		{"judge", e.Judge},
		{"attacks left out", yes(e.NoAttacks)},
	}
	tools := map[string][]string{} // the beginnings of catalogs' digests, by server
	for _, server := range e.Servers {
		for _, c := range server.Catalogs {
			tools[server.Name] = append(tools[server.Name], fmt.Sprintf("%.12s", c.SHA256))
		}
	}
	for _, server := range slices.Sorted(maps.Keys(tools)) {
		all = append(all, Setting{"tools of " + server, strings.Join(slices.Sorted(slices.Values(tools[server])), ", ")})
	}
	return append(all, e.Made...)
}

// trialsOfTask returns how many trials that count the tasks have.
func (e Entry) trialsOfTask() string {
	fewest, most := 0, 0
	for i, t := range e.Tasks {
		_, counted := t.passed()
		if i == 0 {
			fewest = counted
		}
		fewest, most = min(fewest, counted), max(most, counted)
	}
	switch {
	case most == 0:
		return ""
	case fewest == most:
		return fmt.Sprint(most)
	}
	return fmt.Sprintf("%d to %d", fewest, most)
}

func yes(is bool) string {
	if is {
		return "yes"
	}
	return "no"
}

func seconds(s int64) string {
	if s == 0 {
		return ""
	}
	return (time.Duration(s) * time.Second).String()
}
