package docs_test

import (
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/waza-isolate/waza/internal/dockertest"
	"github.com/waza-isolate/waza/internal/runtest"
	"github.com/waza-isolate/waza/runner"
)

// unrun are the examples that TestExamplesPlay leaves out, and why: nobody can run them as they stand, or a cassette has nothing
// to give.
var unrun = map[string]string{
	"README-stock":               "its server is the reader's",
	"adapters-mine":              "its model is one on the reader's machine",
	"egress-egress":              "its hosts are made up",
	"eval-yaml-asking":           "its judge is made up",
	"judge-judged":               "its judge is made up",
	"narration-stream-json":      "its agent is the reader's",
	"mcp-servers-packages":       "it downloads packages",
	"patterns-look-around":       "it looks at its sandbox",
	"eval-yaml-mocked":           "its agent asks nobody",
	"eval-yaml-deploying":        "its agent asks nobody",
	"eval-yaml-turns":            "its agent asks nobody",
	"eval-yaml-answering":        "its server asks for input, and a cassette has answers alone",
	"secrets-secrets":            "its secrets are the reader's",
	"from-mcp-eval-stock":        "its server and model are the reader's",
	"from-promptfoo-stock":       "its server and model are the reader's",
	"prompt-injection-injection": "its servers and model are the reader's",
	"untrusted-server-untrusted": "its server and model are the reader's",
	"troubleshooting-exits":      "its server does not come up, so there is nothing to record",
	"troubleshooting-prints":     "its server does not come up, so there is nothing to record",
	"ci-without-keys-shop":       "TestConsole plays it",
	"compare-models-stock":       "TestConsole plays it",
}

// sandboxed are the examples that play in isolation alone, and why.
var sandboxed = map[string]string{
	"llm-agent-with-skills": "its agent has other tools without isolation",
}

// unplayed are commands of pages whose runs have nothing to record, and why.
var unplayed = map[string]string{
	"waza run eval.yaml":                     "the server of troubleshooting.md does not come up",
	"waza run --infra-retries 0 eval.yaml":   "the server of troubleshooting.md does not come up",
	"waza run --no-isolate --run-dir missed": "it ends at a miss",
}

// TestExamplesPlay runs the examples, and plays their runs.
func TestExamplesPlay(t *testing.T) {
	dockertest.Require(t)
	waza := dockertest.Waza(t)
	all := namedExamples(t)
	for name := range unrun {
		if all[name] == nil {
			t.Errorf("no document has the example %s", name)
		}
	}
	image := regexp.MustCompile(`waza-examples/[\w-]+`)
	for name, files := range all {
		if unrun[name] != "" {
			continue
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for _, found := range image.FindAllString(files["eval.yaml"], -1) {
				dockertest.Image(t, found)
			}
			dir := unpack(t, files)
			cmd := exec.CommandContext(t.Context(), waza, "run", "--isolate", "--trials", "1", "--run-dir", "live", "eval.yaml")
			cmd.Dir, cmd.Env = dir, append(os.Environ(), "EVERYTHING_TOKEN=t", "REGION=r")
			if said, err := cmd.CombinedOutput(); cmd.ProcessState.ExitCode() > 1 {
				t.Fatalf("%v\n%s", err, said)
			}
			checkPlays(t, waza, dir, filepath.Join(dir, "live"), sandboxed[name] != "")
		})
	}
}

// playNew plays the runs that the commands of a block made.
func playNew(t *testing.T, waza, dir, block string, played map[string]bool) {
	t.Helper()
	nothing := false
	commands, _ := transcriptOf(block)
	for _, command := range commands {
		nothing = nothing || unplayed[command] != ""
	}
	for _, run := range runsIn(t, dir) {
		if !played[run] && !nothing {
			checkPlays(t, waza, dir, run, false)
		}
		played[run] = true
	}
}

// runsIn returns the run directories below a directory.
func runsIn(t *testing.T, dir string) (all []string) {
	t.Helper()
	err := filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err == nil && entry.Name() == "run.json" {
			all = append(all, filepath.Dir(path))
			return fs.SkipDir
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// checkPlays checks that a run of an eval in dir plays from the cassette that is made of it, in isolation or where there is no
// network, engine or variable. A run with --cassette has played already.
func checkPlays(t *testing.T, waza, dir, run string, isolate bool) {
	t.Helper()
	record, err := runner.ReadRecord(run)
	if err != nil {
		t.Fatal(err)
	}
	if record.Cassette != "" {
		return
	}
	out := t.TempDir()
	cassette, played := filepath.Join(out, "cassette"), filepath.Join(out, "played")
	do := func(most int, args ...string) {
		cmd := exec.CommandContext(t.Context(), args[0], args[1:]...)
		cmd.Dir = dir
		if said, err := cmd.CombinedOutput(); cmd.ProcessState == nil || cmd.ProcessState.ExitCode() > most {
			t.Fatalf("%s: %v\n%s", strings.Join(args, " "), err, said)
		}
	}
	do(0, waza, "record", run, "-o", cassette)
	args := []string{"run", record.Eval.Path, fmt.Sprintf("--isolate=%t", isolate), "--cassette", cassette, "--run-dir", played, "--trials", strconv.Itoa(record.Trials), "--executor", record.Eval.Executor}
	if record.Eval.Model != "" {
		args = append(args, "--model", record.Eval.Model)
	}
	for _, task := range record.Tasks {
		args = append(args, "--task", task.ID)
	}
	if isolate {
		do(1, append([]string{waza}, args...)...)
	} else {
		do(1, runtest.Alone(waza, args...)...)
	}
	runtest.CheckPlayed(t, run, played)
}
