package report

import (
	"fmt"
	"html/template"

	"github.com/waza-isolate/waza/evidence"
	"github.com/waza-isolate/waza/report/view"
	"github.com/waza-isolate/waza/results"
)

// Comparison returns the page that compares runs. runs and links hold the views and page
// links, in order, of the runs that have pages in the document; other runs have neither.
// Differences within tasks are read from the evidence that read finds; it may be nil.
func Comparison(c results.Comparison, runs []view.Run, links []Links, read TrialOf) Page {
	p := comparison{place: place{path: PathCompare}, TooFew: view.TooFew(c)}
	for i, run := range c.Runs {
		one := comparedRun{ComparedRun: run, Lane: fmt.Sprintf("s%d", i%lanes)}
		if i < len(runs) && i < len(links) {
			one.Run, one.Links = runs[i], links[i]
		}
		p.Runs = append(p.Runs, one)
	}
	for _, pair := range c.Pairs {
		p.Pairs = append(p.Pairs, comparedPairOf(pair, c.Of(pair)))
	}
	p.Tasks = comparedTasks(c, p.Runs)
	p.Left = p.unfold(read)
	return Page{ID: PathCompare, Title: "Comparison", name: "compare", data: p}
}

type comparison struct {
	place
	TooFew string
	Runs   []comparedRun
	Pairs  []comparedPair
	Tasks  []comparedTask
	Left   int // number of tasks whose outputs and calls were not compared
}

// comparedRun is a run with its pages, if it has any.
type comparedRun struct {
	results.ComparedRun
	Lane  string
	Run   view.Run
	Links Links
}

// Overview returns the address of the run's first page, or "" if it has none.
func (r comparedRun) Overview() template.URL {
	if r.Run.ID == "" {
		return ""
	}
	return r.Links.To(PathOverview)
}

// Number returns the run's number in the comparison.
func (r comparedRun) Number() int { return r.ComparedRun.Run }

// Verdict returns the verdict on the run, or nil if it has no pages.
func (r comparedRun) Verdict() *verdict {
	if r.Run.ID == "" {
		return nil
	}
	v := verdictOf(r.Run)
	return &v
}

// comparedPair is a run compared with the first.
type comparedPair struct {
	results.Pair
	Figures []contrast
	Worse   list[view.Difference] // to be reviewed
	Others  list[view.Difference]
}

func comparedPairOf(pair results.Pair, all []results.Difference) comparedPair {
	p := comparedPair{Pair: pair, Figures: figuresOf(pair)}
	var worse, others []view.Difference
	for _, d := range view.Differences(all) {
		if d.Change.ForTheWorse() {
			worse = append(worse, d)
		} else {
			others = append(others, d)
		}
	}
	p.Worse, p.Others = listOf(worse), listOf(others)
	return p
}

// contrast is a figure of two runs.
type contrast struct {
	Name          string
	Before, After string
	Mark          Mark
	By            string // the difference; empty if none is shown
	Interval      string
	Whisker       *extent // the interval; nil if there is none
}

func figuresOf(p results.Pair) (all []contrast) {
	for _, figure := range view.Figures(p) {
		f := contrast{
			Name: capital(figure.Name), Before: figure.Unit.Text(figure.Before), After: figure.Unit.Text(figure.After),
			Mark: findingMark(figure.Finding), By: figure.By(), Interval: figure.Range(),
		}
		switch {
		case figure.Few:
		case figure.Ratio != nil:
			f.Whisker = new(ratio(*figure.Ratio))
		case figure.Difference != nil:
			f.Whisker = new(shareDifference(*figure.Difference))
		}
		all = append(all, f)
	}
	return all
}

func findingMark(f results.Finding) Mark {
	switch f {
	case results.Better:
		return Mark{"pass", "better", "pass"}
	case results.Worse:
		return Mark{"fail", "worse", "fail"}
	}
	return Mark{"none", string(results.NoDifference), "soft"}
}

func changeMark(c results.Change) Mark {
	switch c {
	case results.Regressed:
		return Mark{"fail", string(c), "fail"}
	case results.NowFailing:
		return Mark{"fail", string(c), "warn"}
	case results.NowAttacked:
		return labeledInjectionMark(evidence.AttackSucceeded)
	case results.Missing:
		return Mark{"infra", string(c), "infra"}
	case results.Flaky:
		return Mark{"error", string(c), "warn"}
	case results.Fixed:
		return Mark{"pass", string(c), "pass"}
	case results.NowPassing:
		return Mark{"pass", string(c), "soft"}
	}
	return Mark{"none", string(c), "soft"}
}

// comparedTask is a task in all runs.
type comparedTask struct {
	ID    string
	Cells []comparedCell
	Is    string // words to filter by

	Differing []differing // parts that differ between the runs that have the task
}

// comparedCell is a task in one run.
type comparedCell struct {
	results.ComparedTask
	Mark   *Mark  // of its change since the first run; nil if it has none
	Dots   []dot  // nil unless the run is in the document
	Links  Links  // zero unless the run is in the document
	TestID string // for links
}

func comparedTasks(c results.Comparison, runs []comparedRun) (rows []comparedTask) {
	changes := map[taskOfRun]results.Change{}
	for _, d := range c.Differences {
		changes[taskOfRun{d.Run, d.Task}] = d.Change
	}
	tables := make([]map[string]comparedCell, len(runs))
	for i, run := range runs {
		tables[i] = run.cells()
	}
	for _, id := range c.TaskIDs() {
		row := comparedTask{ID: id, Is: "|"}
		for i, run := range runs {
			cell, ok := tables[i][id]
			if !ok {
				cell = comparedCell{ComparedTask: results.ComparedTask{ID: id}, TestID: id}
			}
			if change := changes[taskOfRun{run.Number(), id}]; change != "" {
				mark := changeMark(change)
				if row.Is += mark.Word + "|"; change != results.NowAttacked { // the cell itself shows an attack
					cell.Mark = &mark
				}
			}
			row.Cells = append(row.Cells, cell)
		}
		if row.Is == "|" {
			row.Is = "|unchanged|"
		}
		rows = append(rows, row)
	}
	return rows
}

type taskOfRun struct {
	run  int
	task string
}

// cells returns the run's tasks by id.
func (r comparedRun) cells() map[string]comparedCell {
	dots := map[string][]dot{}
	for _, task := range view.Tasks(r.Run.Results) {
		dots[task.TestID] = taskRowOf(task, 0).Dots
	}
	cells := map[string]comparedCell{}
	for _, task := range r.Tasks {
		cells[task.ID] = comparedCell{ComparedTask: task, Dots: dots[task.ID], Links: r.Links, TestID: task.ID}
	}
	return cells
}

// Choices returns the kinds of changes by which the tasks can be filtered.
func (c comparison) Choices() []choice {
	var words []string
	for _, change := range results.Changes() {
		words = append(words, string(change))
	}
	tags := make([]string, len(c.Tasks))
	for i, t := range c.Tasks {
		tags[i] = t.Is
	}
	return choicesAmong(append(words, "unchanged", wordDiffers), tags)
}
