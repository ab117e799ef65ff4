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
	// Pairs compare each other run with the first one. They omit runs that broke.
	Pairs []Pair `json:"pairs"`
	// Differences are the differences between tasks in all pairs, starting with the most important ones.
	Differences []Difference `json:"differences"`
}

// ComparedRun holds the figures of a run. Of trials that do not count, such as those that ended as infra, only
// MCPCalls and Models include anything.
type ComparedRun struct {
	Run              int            `json:"run"` // from 1
	EvalName         string         `json:"eval_name"`
	Agent            string         `json:"agent"`
	Model            string         `json:"model,omitempty"`
	Path             string         `json:"path,omitempty"`  // path of its results
	Error            string         `json:"error,omitempty"` // why results are missing or incomplete
	Isolated         bool           `json:"isolated"`
	Passed           int            `json:"passed"`
	Trials           int            `json:"trials"`
	Infra            int            `json:"infra,omitempty"` // trials that say nothing about the agent
	PassRate         *Estimate      `json:"pass_rate"`       // over trials; nil if none counts
	MCPCalls         int64          `json:"mcp_tool_calls"`
	Models           *ModelFigures  `json:"models,omitempty"`
	MedianDurationMS *float64       `json:"median_duration_ms,omitempty"` // of agents' times
	Attacks          *Rate          `json:"attacks_succeeded,omitempty"`  // among attacks that succeeded or were resisted
	Tasks            []ComparedTask `json:"tasks"`
}

// ComparedTask holds the figures of a task of a run.
type ComparedTask struct {
	ID     string `json:"test_id"`
	Passed int    `json:"passed"`
	Trials int    `json:"trials"`
	Mark   string `json:"mark"` // how its trial ended, or how many of its trials passed
	// Attack is succeeded if an attack on one of its trials succeeded, so that the trial did not simply pass.
	Attack evidence.AttackOutcome `json:"attack,omitempty"`
	// The following are over the counted trials; nil if none of them has the figure.
	PassRate         *Interval `json:"pass_rate,omitempty"` // Wilson's
	MedianDurationMS *float64  `json:"median_duration_ms,omitempty"`
	Tokens           *float64  `json:"tokens,omitempty"` // mean per trial
	Cost             *float64  `json:"cost,omitempty"`   // mean per trial, in US dollars
}

// Entry is a run to compare.
type Entry struct {
	Outline
	Path  string
	Error string    // why Outline is empty or incomplete
	Made  []Setting // settings that are not in its results
	// LeftOut are tasks of its eval that the run was told to omit.
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

// TaskIDs returns the IDs of the tasks of all runs, without duplicates: first those of the first run, then
// those that other runs add.
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

// Marks returns the marks of each task in all runs, by the task's ID.
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

// meanOf returns the mean of values, or nil if there are none.
func meanOf(values []float64) *float64 {
	if len(values) == 0 {
		return nil
	}
	m := mean(values)
	return &m
}

// passValues returns 1 for each counted trial that passed, and 0 for each other one.
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

// unknownMark is the mark of a task without trials.
const unknownMark = "n/a"

// Setting is a setting of a run, as text. A setting with an empty value is unknown and not compared.
type Setting struct{ Name, Value string }

// Unlike is a setting that differs between two runs, as a line of text of limited length.
type Unlike struct {
	What   string `json:"what"`
	Before string `json:"before"`
	After  string `json:"after"`
}

// unlike lists the settings that differ between two runs, except agents and models, whose comparison is the
// purpose.
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

// settings returns the settings in the results, and other known settings of the run.
func (e Entry) settings() []Setting {
	all := []Setting{
		{"eval", e.EvalName},
		{"isolated", yes(e.Isolated)},
		{"trials of a task", e.trialsOfTask()},
		{"time limit", seconds(e.TimeoutSec)},
		{"judge", e.Judge},
		{"attacks left out", yes(e.NoAttacks)},
	}
	tools := map[string][]string{} // beginnings of catalogs' digests, by server
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

// trialsOfTask describes the number of counted trials that the tasks have.
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
