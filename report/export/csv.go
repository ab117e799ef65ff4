package export

import (
	"encoding/csv"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/waza-isolate/waza/report/view"
	"github.com/waza-isolate/waza/results"
)

func init() { add(Format{Name: "csv", Write: CSV}) }

// column is a column of the table of trials.
type column struct {
	name string
	of   func(run Run, task view.Task, r view.Trial) string
}

// columns returns the columns of the table. New columns are added at the end.
func columns() []column {
	return []column{
		{"run", func(run Run, _ view.Task, _ view.Trial) string { return run.ID }},
		{"eval", func(run Run, _ view.Task, _ view.Trial) string { return run.Results.EvalName }},
		{"started", func(run Run, _ view.Task, _ view.Trial) string {
			return run.Started.UTC().Format(time.RFC3339)
		}},
		{"agent", func(run Run, _ view.Task, _ view.Trial) string { return run.Results.Config.EngineType }},
		{"model", func(run Run, _ view.Task, _ view.Trial) string { return run.Results.Config.ModelID }},
		{"isolated", func(run Run, _ view.Task, _ view.Trial) string { return strconv.FormatBool(run.Isolated) }},
		{"task", func(_ Run, task view.Task, _ view.Trial) string { return task.TestID }},
		{"task_name", func(_ Run, task view.Task, _ view.Trial) string { return task.DisplayName }},
		{"trial", func(_ Run, _ view.Task, r view.Trial) string { return strconv.Itoa(r.RunNumber) }},
		{"attempts", func(_ Run, _ view.Task, r view.Trial) string { return strconv.Itoa(r.Attempts) }},
		{"outcome", func(_ Run, _ view.Task, r view.Trial) string { return string(r.Outcome) }},
		{"reason", func(_ Run, _ view.Task, r view.Trial) string { return string(r.Reason) }},
		{"why", func(_ Run, _ view.Task, r view.Trial) string { return r.Line() }},
		{"score", func(_ Run, _ view.Task, r view.Trial) string { return number(r.Score()) }},
		{"duration_ms", func(_ Run, _ view.Task, r view.Trial) string { return strconv.FormatInt(r.DurationMS, 10) }},
		{"mcp_calls", func(_ Run, _ view.Task, r view.Trial) string {
			return strconv.Itoa(r.SessionDigest.MCPToolCalls)
		}},
		{"tool_calls", func(_ Run, _ view.Task, r view.Trial) string {
			return strconv.Itoa(r.SessionDigest.ToolCallCount)
		}},
		{"input_tokens", func(_ Run, _ view.Task, r view.Trial) string {
			return tokens(r, func(t results.Tokens) int64 { return t.Input })
		}},
		{"output_tokens", func(_ Run, _ view.Task, r view.Trial) string {
			return tokens(r, func(t results.Tokens) int64 { return t.Output })
		}},
		{"cost_usd", func(_ Run, _ view.Task, r view.Trial) string {
			if r.Models == nil || r.Models.Cost == nil {
				return ""
			}
			return number(*r.Models.Cost)
		}},
		{"attack", func(_ Run, _ view.Task, r view.Trial) string {
			if r.Attack == nil {
				return ""
			}
			return string(r.Attack.Result)
		}},
	}
}

// CSV writes a header and a row for each trial that has verdicts. Unknown values are empty.
// To prevent spreadsheets from interpreting a cell as a formula, it is prefixed with an
// apostrophe if necessary.
func CSV(w io.Writer, run Run) error {
	out, all := csv.NewWriter(w), columns()
	row := make([]string, len(all))
	for i, c := range all {
		row[i] = c.name
	}
	if err := out.Write(row); err != nil {
		return err
	}
	for task, r := range run.graded() {
		for i, c := range all {
			row[i] = cell(c.of(run, task, r))
		}
		if err := out.Write(row); err != nil {
			return err
		}
	}
	out.Flush()
	return out.Error()
}

// cell returns a text that spreadsheets do not interpret as a formula.
func cell(s string) string {
	s = strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7F {
			return ' '
		}
		return r
	}, cut(s))
	if s != "" && strings.ContainsRune("=+-@", rune(s[0])) {
		return "'" + s
	}
	return s
}

func number(f float64) string { return strconv.FormatFloat(f, 'g', -1, 64) }

func tokens(r view.Trial, of func(results.Tokens) int64) string {
	if r.Usage == nil {
		return ""
	}
	return strconv.FormatInt(of(r.Usage.Tokens), 10)
}
