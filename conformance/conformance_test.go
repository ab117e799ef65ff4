// Package conformance_test holds waza to what it says of its proxy: the official
// conformance suite finds the same through it as beside the server.
package conformance_test

import (
	"archive/tar"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"io"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/waza-isolate/waza/internal/dockertest"
	"github.com/waza-isolate/waza/runner"
	"github.com/waza-isolate/waza/runner/evidence"
)

const (
	image = "waza-examples/conformance"

	// runLimit is more than the run takes.
	runLimit = 5 * time.Minute
)

// expected is how many checks the pinned version of the suite makes for each
// revision; a run with others compared something else than it says.
func expected() map[string]int { return map[string]int{"2025-11-25": 84, "2026-07-28": 196} }

func TestConformance(t *testing.T) {
	dockertest.Image(t, image)
	dir := t.TempDir()
	if err := os.CopyFS(dir, os.DirFS(".")); err != nil {
		t.Fatal(err)
	}
	trials := run(t, dir)
	for revision, checks := range expected() {
		if n := trials["direct-"+revision].checks(); n != checks {
			t.Errorf("%s: %d checks beside the server, want %d", revision, n, checks)
		}
		for _, transport := range []string{"stdio", "http"} {
			t.Run(transport+"/"+revision, func(t *testing.T) {
				through := trials[transport+"-"+revision]
				t.Logf("%d scenarios, %d checks", len(through), through.checks())
				found := differences(trials["direct-"+revision], through)
				if found == nil {
					return
				}
				t.Logf("once more, for:\n%s", strings.Join(found, "\n"))
				again := run(t, dir, "direct-"+revision, transport+"-"+revision)
				for _, d := range inBoth(found, differences(again["direct-"+revision], again[transport+"-"+revision])) {
					t.Error(d)
				}
			})
		}
	}
}

// run runs tasks of the eval in dir, all where none is named, and returns what the
// suite found in each trial, by task.
func run(t *testing.T, dir string, tasks ...string) map[string]findings {
	t.Helper()
	name := "conformance-" + strings.ToLower(rand.Text()[:10])
	eval := filepath.Join(dir, name+".yaml")
	content, err := os.ReadFile(filepath.Join(dir, "eval.yaml"))
	named := strings.Replace(string(content), "name: conformance\n", "name: "+name+"\n", 1)
	if err := errors.Join(err, os.WriteFile(eval, []byte(named), 0o644)); err != nil || named == string(content) {
		t.Fatalf("the eval cannot be named: %v", err)
	}
	engine := dockertest.Engine(t)
	t.Cleanup(func() {
		runs := dockertest.Runs(t, engine, name)
		for _, id := range runs {
			dockertest.NoObjects(t, engine, id)
		}
	})
	ctx, cancel := context.WithTimeout(t.Context(), runLimit)
	defer cancel()
	records := filepath.Join(dir, name)
	args := []string{"run", "--isolate", "--run-dir", records, eval}
	for _, task := range tasks {
		args = append(args, "--task", task)
	}
	waza := exec.CommandContext(ctx, dockertest.Waza(t), args...)
	waza.Cancel = func() error { return waza.Process.Signal(os.Interrupt) }
	waza.WaitDelay = time.Minute
	if out, err := waza.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	dirs, err := runner.Trials(records)
	if err != nil {
		t.Fatal(err)
	}
	found := map[string]findings{}
	for _, trial := range dirs {
		task := path.Base(path.Dir(filepath.ToSlash(string(trial))))
		checkWay(t, trial, !strings.HasPrefix(task, "direct-"))
		found[task] = read(t, trial)
	}
	return found
}

// checkWay holds that the suite's messages went through the proxy, or did not: a
// suite that reaches the server another way would be compared with itself.
func checkWay(t *testing.T, trial evidence.Dir, through bool) {
	t.Helper()
	frames := 0
	for _, err := range trial.Frames() {
		if err != nil {
			t.Fatal(err)
		}
		frames++
	}
	const few = 100 // the suite sends more in every revision
	if through != (frames > few) {
		t.Errorf("%s: %d frames", trial, frames)
	}
}

// read reads results.json out of a trial's workspace.
func read(t *testing.T, trial evidence.Dir) findings {
	t.Helper()
	workspace, err := trial.Workspace()
	if err != nil {
		t.Fatal(err)
	}
	defer workspace.Close()
	in := tar.NewReader(workspace)
	for {
		header, err := in.Next()
		if errors.Is(err, io.EOF) {
			t.Fatalf("%s: the suite left no results", trial)
		}
		if err != nil {
			t.Fatal(err)
		}
		if path.Clean(header.Name) != "results.json" {
			continue
		}
		var found findings
		if err := json.NewDecoder(in).Decode(&found); err != nil {
			t.Fatal(err)
		}
		return found
	}
}
