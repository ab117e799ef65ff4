package pagetest

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/waza-isolate/waza/internal/runtest"
	"github.com/waza-isolate/waza/runner"
)

const (
	manyCalls  = 10_000
	manyTrials = 1_000
)

// longTrial is a run of one trial with so many calls, of three servers: some fail, some are
// tried again, and one in a hundred answers with 100 KiB.
func longTrial(t testing.TB, dir string, calls int) {
	t.Helper()
	run := runtest.New(t, dir, "long")
	run.Trial("long", func(trial *runtest.Trial) {
		servers := []string{"files", "search", "web"}
		for _, server := range servers {
			trial.Serve(server, runtest.Tool{Name: "look", Description: "Looks something up."}, runtest.Tool{Name: "change"})
		}
		for i := range calls {
			server, arguments := servers[i%len(servers)], map[string]any{"number": i, "path": fmt.Sprintf("/data/%04d/notes.txt", i), "deep": []any{map[string]any{"a": nil, "b": true}}}
			switch {
			case i%37 == 5:
				trial.Fail(server, "change", arguments, "no such file")
			case i%100 == 50:
				trial.Call(server, "look", arguments, strings.Repeat(fmt.Sprintf("line %d of a long answer\n", i), 100<<10/25))
			default:
				trial.Call(server, "look", arguments, fmt.Sprintf(`{"found": %d, "what": "an answer of ordinary size, as servers give it"}`, i))
			}
		}
		trial.Info.FinalOutput = "done"
		trial.Grade("used", "mcp_compliance", `{"server": "files", "expect_tools_used": ["look"], "max_tool_errors": 0}`)
	})
	run.End()
}

// broadRun is a run of so many trials of twenty tasks. One in seven fails.
func broadRun(t testing.TB, dir string, trials int) {
	t.Helper()
	run := runtest.New(t, dir, "broad")
	for i := range trials {
		run.Trial(fmt.Sprintf("task-%02d", i%20), func(trial *runtest.Trial) {
			trial.Serve("inventory", runtest.Tool{Name: "find_item", Description: "Looks an item up."})
			for n := range 3 {
				trial.Call("inventory", "find_item", map[string]any{"sku": n}, "found")
			}
			if trial.Info.FinalOutput = "found"; i%7 == 3 {
				trial.Info.FinalOutput = "nothing"
			}
			trial.Grade("answer", "text", `{"contains": ["found"]}`)
		})
	}
	run.End()
}

// written writes the report of the run in dir, and returns its path and size.
func written(t testing.TB, dir string) (path string, size int64) {
	t.Helper()
	path = filepath.Join(dir, "report.html")
	file, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := runner.WriteReport(file, []string{dir}); err != nil {
		t.Fatal(err)
	}
	info, err := file.Stat()
	if err != nil {
		t.Fatal(err)
	}
	if err := file.Close(); err != nil {
		t.Fatal(err)
	}
	return path, info.Size()
}
