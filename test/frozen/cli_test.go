package frozen

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/waza-isolate/waza/internal/dockertest"
	"github.com/waza-isolate/waza/internal/golden"
)

// TestMistakes runs the scripts of testdata/mistakes, where no engine answers. Each has
// what waza says to a mistake, and the exit code.
func TestMistakes(t *testing.T) {
	waza := dockertest.Waza(t)
	testscript.Run(t, testscript.Params{
		Dir:                 filepath.Join("testdata", "mistakes"),
		UpdateScripts:       *golden.Update,
		RequireExplicitExec: true,
		Setup: func(env *testscript.Env) error {
			env.Setenv("DOCKER_HOST", "unix:///nonexistent/docker.sock")
			env.Setenv("HOME", env.WorkDir)
			env.Setenv("PATH", "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin")
			return nil
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"said": func(ts *testscript.TestScript, _ bool, args []string) { said(ts, waza, args) },
		},
	})
}

// said waza ARGUMENT... runs waza and writes what it printed and its exit code, in a form
// that is the same each time, into the file said.
func said(ts *testscript.TestScript, waza string, args []string) {
	if len(args) < 1 || args[0] != "waza" {
		ts.Fatalf("usage: said waza ARGUMENT...")
	}
	var exit *exec.ExitError
	code, err := 0, ts.Exec(waza, args[1:]...)
	if errors.As(err, &exit) {
		code = exit.ExitCode()
	} else {
		ts.Check(err)
	}
	printed := strings.ReplaceAll(ts.ReadFile("stdout")+ts.ReadFile("stderr"), ts.Getenv("WORK"), "$WORK")
	ts.Check(os.WriteFile(ts.MkAbs("said"), fmt.Appendf(nil, "%sexit code %d\n", steady(printed), code), 0o644))
}

// What differs from run to run: times, and names that are made of them or of chance.
var unsteady = []struct {
	is *regexp.Regexp
	as string
}{
	{regexp.MustCompile(`\b\d{8}-\d{6}-([\w.-]+)-[0-9a-f]{6}\b`), "TIME-$1-RANDOM"},
	{regexp.MustCompile(`\b\d{4}-\d\d-\d\d[T ]\d\d:\d\d(:\d\d(\.\d+)?)?( ?(Z|UTC))?`), "TIME"},
	{regexp.MustCompile(`\b(\d+h)?(\d+m)?\d+(\.\d+)?(s|ms|µs)\b`), "DURATION"},
}

func steady(printed string) string {
	for _, u := range unsteady {
		printed = u.is.ReplaceAllString(printed, u.as)
	}
	return printed
}

// printed is what waza prints when it is run in a directory, where no engine answers, and
// its exit code.
func printed(t *testing.T, waza, dir string, args ...string) string {
	t.Helper()
	var stdout, stderr bytes.Buffer
	cmd := exec.CommandContext(t.Context(), waza, args...)
	cmd.Dir, cmd.Stdout, cmd.Stderr = dir, &stdout, &stderr
	cmd.Env = append(os.Environ(), "DOCKER_HOST=unix:///nonexistent/docker.sock", "COLUMNS=", "NO_COLOR=1", "GITHUB_ACTIONS=")
	if err := cmd.Run(); cmd.ProcessState == nil {
		t.Fatal(err)
	}
	return fmt.Sprintf("%s%sexit code %d\n", &stdout, &stderr, cmd.ProcessState.ExitCode())
}

// TestHelp checks what every command says of itself, by the commands that docs/cli.md lists.
func TestHelp(t *testing.T) {
	waza := dockertest.Waza(t)
	reference, err := os.ReadFile("../../docs/cli.md")
	if err != nil {
		t.Fatal(err)
	}
	commands := regexp.MustCompile(`(?m)^## waza (.*)$`).FindAllStringSubmatch(string(reference), -1)
	if len(commands) < 10 {
		t.Fatalf("docs/cli.md lists %d commands", len(commands))
	}
	golden.Check(t, "testdata/help/waza.txt", printed(t, waza, ".", "--help"))
	for _, command := range commands {
		words := strings.Fields(command[1])
		golden.Check(t, "testdata/help/"+strings.Join(words, "-")+".txt", printed(t, waza, ".", append(words, "--help")...))
	}
}

// TestPlans holds the dry run of every example.
func TestPlans(t *testing.T) {
	waza := dockertest.Waza(t)
	evals, err := filepath.Glob("../../examples/*/eval.yaml")
	more, _ := filepath.Glob("../../examples/*/evals/*/eval.yaml")
	if evals = append(evals, more...); err != nil || len(evals) < 5 {
		t.Fatalf("%d examples, %v", len(evals), err)
	}
	for _, eval := range evals {
		eval = strings.TrimPrefix(eval, "../../")
		name := strings.ReplaceAll(strings.TrimPrefix(filepath.Dir(eval), "examples/"), "/", "-")
		golden.Check(t, "testdata/plans/"+name+".txt", printed(t, waza, "../..", "run", "--isolate", "--dry-run", eval))
	}
}
