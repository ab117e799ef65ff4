package report

import (
	"html/template"

	"github.com/waza-isolate/waza/results"
)

// comparedTask is a task in all runs.
type comparedTask struct {
	ID    string
	Cells []comparedCell
	Is    string // words to filter by
}

// comparedCell is a task in one run.
type comparedCell struct {
	results.ComparedTask
	Mark   *Mark  // of its change against the first run; nil where it has none
	Dots   []dot  // where the run is in the document
	Links  Links  // likewise
	TestID string // for links
}

// Trial is where the page of one of its trials is.
func (c comparedCell) Trial(task string, number int) template.URL {
	return c.Links.To(TrialPath(task, number))
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
				cell.Mark = &mark
				row.Is += mark.Word + "|"
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

// cells are the run's tasks by id.
func (r comparedRun) cells() map[string]comparedCell {
	dots := map[string][]dot{}
	for _, task := range r.Run.Results.Tasks {
		dots[task.TestID] = taskRowOf(task, r.Run.Results.Config.RunsPerTest).Dots
	}
	cells := map[string]comparedCell{}
	for _, task := range r.Tasks {
		cells[task.ID] = comparedCell{ComparedTask: task, Dots: dots[task.ID], Links: r.Links, TestID: task.ID}
	}
	return cells
}

// Choices are the changes that tell tasks apart.
func (c comparison) Choices() []choice {
	var words []string
	for _, change := range results.Changes() {
		words = append(words, string(change))
	}
	tags := make([]string, len(c.Tasks))
	for i, t := range c.Tasks {
		tags[i] = t.Is
	}
	return choicesAmong(append(words, "unchanged"), tags)
}
