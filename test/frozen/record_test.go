package frozen

import (
	"context"
	"errors"
	"flag"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/waza-isolate/waza/internal/dockertest"
)

var record = flag.Bool("record", false, "run the evals of the recorded runs anew, on the engine too, and record them")

// recording is a run that is recorded: waza run ARGS of an eval, which ends with a code.
// What stands before // in the eval is where waza is started.
type recording struct {
	name, eval, args string
	code             int
}

var recordings = []recording{
	{"inventory", "examples/mcp-eval", "--isolate", 0},
	{"inventory-local", "examples/mcp-eval", "", 0},
	{"real-servers", "examples/real-servers", "--isolate", 0},
	{"services", "examples/services", "--isolate", 0},
	{"skills", "examples/llm", "--isolate", 0},
	{"skills-none", "examples/llm", "--no-skills", 1},
	{"agents", "examples/agents", "--isolate --executor llm", 0},
	{"injection-careful", "examples/injection", "--isolate --model stub/careful", 0},
	{"injection-gullible", "examples/injection", "--isolate --model stub/gullible", 1},
	{"injection-none", "examples/injection", "--isolate --model stub/gullible --no-attacks", 0},
	{"narration", "examples/narration", "--isolate", 1},
	{"narration-local", "examples/narration", "", 1},
	{"explain", "examples/compat//evals/explain", "", 0},
	{"routing", "examples/compat//evals/routing", "", 0},
	{"unmet", "examples/compat//evals/unmet", "--isolate", 1},
	{"outcomes", "test/frozen/testdata/evals/outcomes", "--isolate", 1},
	{"outcomes-local", "test/frozen/testdata/evals/outcomes", "--tags anywhere", 1},
	{"servers", "test/frozen/testdata/evals/servers", "--isolate --infra-retries 1", 3},
	{"servers-local", "test/frozen/testdata/evals/servers", "--infra-retries 0", 3},
	{"turns", "test/frozen/testdata/evals/turns", "--isolate", 1},
	{"turns-other-model", "test/frozen/testdata/evals/turns", "--model stub/quick --trials 1", 1},
}

// TestRecord makes testdata/runs anew. It is a tool, for when what a run writes has changed.
func TestRecord(t *testing.T) {
	if !*record {
		t.Skip("records only with -record")
	}
	dockertest.Require(t)
	for _, r := range recordings {
		t.Run(r.name, func(t *testing.T) {
			dir := emptied(t, r.name)
			cmd := r.command(t, dir)
			if out, err := cmd.CombinedOutput(); cmd.ProcessState == nil || cmd.ProcessState.ExitCode() != r.code {
				t.Fatalf("%v, want exit code %d\n%s", err, r.code, out)
			}
			tidy(t, dir)
		})
	}
	t.Run("interrupted", recordInterrupted)
}

func (r recording) command(t *testing.T, dir string) *exec.Cmd {
	bin, err := filepath.Abs("../../bin")
	if err != nil {
		t.Fatal(err)
	}
	from, eval, found := strings.Cut(r.eval, "//")
	if !found {
		from, eval = ".", r.eval
	}
	args := append([]string{"run", "--run-dir", dir, filepath.Join(eval, "eval.yaml")}, strings.Fields(r.args)...)
	cmd := exec.CommandContext(t.Context(), dockertest.Waza(t), args...)
	cmd.Dir = filepath.Join("..", "..", from)
	cmd.Env = append(os.Environ(), "PATH="+bin+":"+os.Getenv("PATH"), "FROZEN_KEY=no-key-at-all")
	return cmd
}

// recordInterrupted records a run that is interrupted after its first trial, and the same
// run once it has been resumed.
func recordInterrupted(t *testing.T) {
	dir := emptied(t, "interrupted")
	r := recording{eval: "examples/mcp-eval", args: "--isolate --workers 1 --trials 2"}
	cmd := r.command(t, dir)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	dockertest.Await(t, 3*time.Minute, "a trial has been graded", func() bool {
		graded, _ := filepath.Glob(filepath.Join(dir, "trials", "*", "*", "verdicts.json"))
		return len(graded) > 0
	})
	_ = cmd.Process.Signal(syscall.SIGINT)
	_ = cmd.Wait()
	resumed := emptied(t, "resumed")
	if err := os.CopyFS(resumed, os.DirFS(dir)); err != nil {
		t.Fatal(err)
	}
	again := exec.CommandContext(context.WithoutCancel(t.Context()), cmd.Path, "run", "--resume", resumed)
	again.Dir, again.Env = "../..", cmd.Env
	if out, err := again.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	tidy(t, dir)
	tidy(t, resumed)
}

// emptied is the absolute path of a recorded run that is not there any more.
func emptied(t *testing.T, name string) string {
	t.Helper()
	dir, err := filepath.Abs(filepath.Join(runs, name))
	if err = errors.Join(err, os.RemoveAll(dir), os.MkdirAll(filepath.Dir(dir), 0o755)); err != nil {
		t.Fatal(err)
	}
	return dir
}

// tidy leaves of a run what is to be kept: not its page, which is made anew, and not where
// on this machine it was made.
func tidy(t *testing.T, dir string) {
	t.Helper()
	here, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(dir, "run.json")
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	data = []byte(strings.ReplaceAll(string(data), here, "/work"))
	if err := errors.Join(os.WriteFile(file, data, 0o644), os.Remove(filepath.Join(dir, "report.html"))); err != nil {
		t.Fatal(err)
	}
}
