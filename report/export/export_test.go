package export_test

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/waza-isolate/waza/evidence"
	"github.com/waza-isolate/waza/internal/runtest"
	"github.com/waza-isolate/waza/report/export"
	"github.com/waza-isolate/waza/runner"
)

func read(t *testing.T, dir string) export.Run {
	t.Helper()
	record, err := runner.ReadRecord(dir)
	if err != nil {
		t.Fatal(err)
	}
	run, err := runner.ViewOf(dir, record)
	if err != nil {
		t.Fatal(err)
	}
	trials, err := runner.Trials(dir)
	if err != nil {
		t.Fatal(err)
	}
	return export.Run{Run: run, Trials: trials}
}

// runs returns the frozen runs and a hostile one.
func runs(t *testing.T) map[string]export.Run {
	t.Helper()
	recorded, err := filepath.Glob("../../test/frozen/testdata/runs/*")
	if err != nil || len(recorded) < 10 {
		t.Fatal(recorded, err)
	}
	hostile := filepath.Join(t.TempDir(), "hostile")
	run := runtest.New(t, hostile, "hostile")
	run.Trial("hostile", func(trial *runtest.Trial) { trial.Attack() })
	run.End()
	all := map[string]export.Run{}
	for _, dir := range append(recorded, hostile) {
		all[filepath.Base(dir)] = read(t, dir)
	}
	return all
}

// Every format writes something of a run in which most trials do not pass, the same each time.
func TestFormats(t *testing.T) {
	t.Parallel()
	run := read(t, "../../test/frozen/testdata/runs/outcomes-local")
	for _, format := range export.Formats() {
		t.Run(format.Name, func(t *testing.T) {
			var out, again bytes.Buffer
			if err := errors.Join(format.Write(&out, run), format.Write(&again, run)); err != nil || out.Len() == 0 || out.String() != again.String() {
				t.Errorf("%v, %d and %d bytes", err, out.Len(), again.Len())
			}
		})
	}
}

func schema(t *testing.T, name string) *jsonschema.Schema {
	t.Helper()
	s, err := jsonschema.NewCompiler().Compile(filepath.Join("testdata", name))
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func check(t *testing.T, s *jsonschema.Schema, document []byte) {
	t.Helper()
	value, err := jsonschema.UnmarshalJSON(bytes.NewReader(document))
	if err == nil {
		err = s.Validate(value)
	}
	if err != nil {
		t.Errorf("%.3000v", err)
	}
}

func TestATIF(t *testing.T) {
	t.Parallel()
	s := schema(t, "atif-1.7.schema.json")
	for name, run := range runs(t) {
		var out bytes.Buffer
		if err := export.ATIF(&out, run); err != nil {
			t.Fatal(name, err)
		}
		lines := bytes.SplitAfter(bytes.TrimSuffix(out.Bytes(), []byte("\n")), []byte("\n"))
		if len(lines) != len(run.Trials) {
			t.Errorf("%s: %d trajectories of %d trials", name, len(lines), len(run.Trials))
		}
		for i, line := range lines {
			check(t, s, line)
			checkTrajectory(t, line)
			checkCalls(t, run.Trials[i], line)
		}
	}
}

type trajectory struct {
	Steps []struct {
		StepID    int    `json:"step_id"`
		Source    string `json:"source"`
		Message   string `json:"message"`
		ToolCalls []struct {
			ID    string `json:"tool_call_id"`
			Extra *struct{ Call int }
		} `json:"tool_calls"`
		Observation struct {
			Results []struct {
				ID string `json:"source_call_id"`
			}
		}
	}
}

// checkTrajectory checks what ATIF demands and its schema cannot say.
func checkTrajectory(t *testing.T, line []byte) {
	t.Helper()
	var all trajectory
	if err := json.Unmarshal(line, &all); err != nil {
		t.Fatal(err)
	}
	ids := map[string]bool{}
	for i, step := range all.Steps {
		own := map[string]bool{}
		for _, call := range step.ToolCalls {
			if ids[call.ID] {
				t.Errorf("two tool calls have the id %q", call.ID)
			}
			ids[call.ID], own[call.ID] = true, true
		}
		for _, result := range step.Observation.Results {
			if !own[result.ID] {
				t.Errorf("step %d has a result of %q, which is not one of its calls", step.StepID, result.ID)
			}
		}
		if step.StepID != i+1 {
			t.Errorf("step %d has the id %d", i+1, step.StepID)
		}
	}
}

// checkCalls checks that a trajectory has each call on the wire once.
func checkCalls(t *testing.T, dir evidence.Dir, line []byte) {
	t.Helper()
	calls, err := dir.Calls()
	if err != nil && !errors.Is(err, fs.ErrNotExist) { // no server was started
		t.Fatal(err)
	}
	var all trajectory
	if err := json.Unmarshal(line, &all); err != nil {
		t.Fatal(err)
	}
	found := map[int]int{}
	for _, step := range all.Steps {
		for _, call := range step.ToolCalls {
			if call.Extra != nil {
				found[call.Extra.Call]++
			}
		}
	}
	for _, call := range calls {
		if found[call.Seq] != 1 {
			t.Errorf("%s: call %d is there %d times", dir, call.Seq, found[call.Seq])
		}
	}
}

func TestCSV(t *testing.T) {
	t.Parallel()
	for name, run := range runs(t) {
		var out bytes.Buffer
		if err := export.CSV(&out, run); err != nil {
			t.Fatal(name, err)
		}
		rows, err := csv.NewReader(&out).ReadAll() // which wants rows of one length
		if err != nil || len(rows) != run.Run.Trials()+1 {
			t.Fatalf("%s: %d rows of %d trials, %v", name, len(rows), run.Run.Trials(), err)
		}
		for _, row := range rows {
			for i, cell := range row {
				if strings.IndexAny(cell, "=+-@\t\r\n") == 0 {
					t.Errorf("%s: %s begins a formula: %q", name, rows[0][i], cell)
				}
			}
		}
	}
}

// TestCSVSays compares the rows of the frozen runs with their results.json, read as JSON.
func TestCSVSays(t *testing.T) {
	t.Parallel()
	dirs, err := filepath.Glob("../../test/frozen/testdata/runs/*")
	if err != nil || len(dirs) < 10 {
		t.Fatal(dirs, err)
	}
	for _, dir := range dirs {
		var said struct {
			ID    string `json:"eval_id"`
			Tasks []struct {
				ID   string `json:"test_id"`
				Runs []struct {
					Number      int `json:"run_number"`
					Outcome     string
					Reason      string
					Message     string
					Validations map[string]struct {
						Score, Weight                float64
						Result, Feedback, Identifier string
					}
					Attack *struct{ Result string }
				}
			}
		}
		raw, err := os.ReadFile(filepath.Join(dir, "results.json"))
		if err == nil {
			err = json.Unmarshal(raw, &said)
		}
		var out bytes.Buffer
		if err == nil {
			err = export.CSV(&out, read(t, dir))
		}
		rows, bad := csv.NewReader(&out).ReadAll()
		if err := errors.Join(err, bad); err != nil {
			t.Fatal(dir, err)
		}
		next := 1
		for _, task := range said.Tasks {
			for _, trial := range task.Runs {
				row := map[string]string{}
				for i, column := range rows[0] {
					row[column] = rows[next][i]
				}
				next++
				want := map[string]string{"run": said.ID, "task": task.ID, "trial": fmt.Sprint(trial.Number), "outcome": trial.Outcome, "reason": trial.Reason, "attack": ""}
				if trial.Attack != nil {
					want["attack"] = trial.Attack.Result
				}
				for column, value := range want {
					if row[column] != value {
						t.Errorf("%s: %s of %s/%d is %q, and %q in results.json", dir, column, task.ID, trial.Number, row[column], value)
					}
				}
				var sum, weights float64
				reasons := []string{trial.Message}
				for _, v := range trial.Validations {
					sum, weights = sum+v.Score*v.Weight, weights+v.Weight
					if v.Result == "fail" || v.Result == "error" {
						reasons = append(reasons, v.Feedback)
					}
				}
				if score, err := strconv.ParseFloat(row["score"], 64); weights > 0 && (err != nil || math.Abs(score-sum/weights) > 1e-9) {
					t.Errorf("%s: the score of %s/%d is %s, and %v by its graders", dir, task.ID, trial.Number, row["score"], sum/weights)
				}
				why := row["why"]
				if (why == "") != (trial.Outcome == "pass") {
					t.Errorf("%s: %s/%d is %s because of %q", dir, task.ID, trial.Number, trial.Outcome, why)
				}
				if why != "" && !slices.ContainsFunc(reasons, func(reason string) bool {
					first, _, _ := strings.Cut(reason, "\n")
					return first != "" && strings.Contains(why, first[:min(len(first), 60)])
				}) {
					t.Errorf("%s: %s/%d has the reason %q, of %q", dir, task.ID, trial.Number, why, reasons)
				}
			}
		}
		if next != len(rows) {
			t.Errorf("%s: %d rows of %d trials", dir, len(rows)-1, next-1)
		}
	}
}

// One trial of several is exported alone, and texts are bounded.
func TestSome(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "run")
	run := runtest.New(t, dir, "some")
	for range 2 {
		run.Trial("task", func(trial *runtest.Trial) {
			trial.Serve("files", runtest.Tool{Name: "read"})
			trial.Call("files", "read", map[string]any{"path": strings.Repeat("a", 1<<20)}, strings.Repeat("b", 1<<20))
			trial.Info.FinalOutput = strings.Repeat("c", 1<<20)
			trial.Info.Prompt = "=1+1"
		})
	}
	run.End()
	some := read(t, dir)
	some.Trials, some.Content = some.Trials[1:], true
	for format, write := range map[string]func(io.Writer, export.Run) error{"atif": export.ATIF, "csv": export.CSV, "otlp": export.OTLP} {
		var out bytes.Buffer
		if err := write(&out, some); err != nil {
			t.Fatal(err)
		}
		if out.Len() > 600<<10 {
			t.Errorf("%s has %d bytes", format, out.Len())
		}
		if want := fmt.Sprintf("task%s2", map[string]string{"atif": "/", "csv": ",task,", "otlp": "/"}[format]); !strings.Contains(out.String(), want) {
			t.Errorf("%s has no %s", format, want)
		}
		if other := fmt.Sprintf("task%s1", map[string]string{"atif": "/", "csv": ",task,", "otlp": "/"}[format]); strings.Contains(out.String(), other) {
			t.Errorf("%s has %s too", format, other)
		}
	}
}
