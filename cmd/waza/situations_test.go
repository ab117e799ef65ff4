package main

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/waza-isolate/waza/evidence"
	"github.com/waza-isolate/waza/internal/dockertest"
)

// outcomesWanted are the names that situations give to more than one outcome.
var outcomesWanted = map[string][]evidence.Class{
	"fail_or_agent_error": {evidence.ClassFail, evidence.ClassAgentError},
	"pass_or_agent_error": {evidence.ClassPass, evidence.ClassAgentError},
	"notpass":             {evidence.ClassFail, evidence.ClassError, evidence.ClassAgentError},
	"notpass_if_done":     {evidence.ClassFail, evidence.ClassError, evidence.ClassAgentError, evidence.ClassTimeout},
}

// TestSituations runs the evals of testdata/situations. Each has one task, whose file begins with
// the outcome that a careful person wants: "# want: OUTCOME". It was written before the eval ran.
func TestSituations(t *testing.T) {
	t.Parallel()
	dockertest.Tool(t, "python3")
	dir := filepath.Join("testdata", "situations")
	common := map[string]string{}
	for _, name := range []string{"lab.py", "rc.py"} {
		text, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		common[name] = string(text)
	}
	files, err := filepath.Glob(filepath.Join(dir, "*.txtar"))
	if err != nil || len(files) < 90 {
		t.Fatalf("%d situations, %v", len(files), err)
	}
	want := regexp.MustCompile(`(?m)^# want: (\w+)$`)
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txtar"), func(t *testing.T) {
			t.Parallel()
			archive, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			args := []string{"run", "eval.yaml", "--run-dir", "run"}
			open := newLocalProject
			if isolated := strings.Contains(string(archive), "\n  isolation:\n"); isolated {
				args = append(args, "--isolate")
				open = func(t *testing.T, archive string) *project { return newProject(t, archive, "waza-tools") }
			}
			p := open(t, string(archive))
			p.write("lab.py", common["lab.py"])
			if p.exists("fixtures") {
				p.write("fixtures/rc.py", common["rc.py"])
			}
			wanted := want.FindStringSubmatch(p.read("task.yaml"))
			if wanted == nil {
				t.Fatal("task.yaml does not say which outcome is wanted")
			}
			allowed, several := outcomesWanted[wanted[1]]
			if !several {
				allowed = []evidence.Class{evidence.Class(wanted[1])}
			}
			p.start(args...).waitEnd(runLimit)
			runs := p.results().Tasks[0].Runs
			got := runs[len(runs)-1]
			if !slices.Contains(allowed, got.Outcome) {
				t.Errorf("%s, want %s: %s", got.Outcome, wanted[1], got.Message)
			}
		})
	}
}
