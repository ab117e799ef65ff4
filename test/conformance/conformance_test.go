// Package conformance_test checks that the official MCP conformance suite has the same
// results through waza's proxy as directly against the server.
package conformance_test

import (
	"archive/tar"
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"io"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/waza-isolate/waza/evidence"
	"github.com/waza-isolate/waza/internal/dockertest"
	"github.com/waza-isolate/waza/runner"
)

const (
	image = "waza-examples/conformance"

	// everything is the server in the eval.
	everything = "everything-server"

	// runLimit is the time limit of a run.
	runLimit = 5 * time.Minute

	// repeats is how often a run is repeated that differs: some checks wait for 1.5 seconds, which
	// a busy machine exceeds.
	repeats = 3
)

// server is a server to run the suite on, and the number of checks per protocol revision
// with the pinned version of the suite. Another number means that the runs did not test
// what they were meant to.
type server struct {
	command    string
	transports []string // "stdio", "http"
	checks     map[string]int
	// overHTTP lists scenarios and checks whose result differs if the server uses stdio,
	// with or without waza.
	overHTTP []string
}

func servers() map[string]server {
	both := []string{"stdio", "http"}
	return map[string]server{
		"go": {command: everything, transports: both, checks: map[string]int{"2025-11-25": 84, "2026-07-28": 196}},
		// Over HTTP this SDK responds without sessions and, in 2026-07-28, with chunked
		// application/json unless it has notifications to send. On stdio, the sessions and
		// event streams are those of waza's proxy; the SDK then also responds to
		// server/discover of any version once the connection has one.
		"typescript": {
			command: "typescript-server", transports: both, checks: map[string]int{"2025-11-25": 68, "2026-07-28": 178},
			overHTTP: []string{
				"server-initialize, server-session-id-visible-ascii:", "server-session-lifecycle,",
				"server-sse-multiple-streams,", "server-sse-polling,",
				"server-stateless, sep-2575-http-server-unsupported-version-400:", "server-stateless, sep-2575-server-unsupported-version-error:",
			},
		},
		// Over HTTP version 1 of this SDK has sessions and streams that resume. In 2026-07-28
		// this server tells of changed lists in lines of JSON, each in a chunk of its own.
		"typescript-v1": {command: "typescript-v1-server", transports: []string{"http"}, checks: map[string]int{"2025-11-25": 70, "2026-07-28": 178}},
	}
}

// differences returns the unexpected differences of a server on a transport.
func (s server) differences(transport string, direct, through findings) []string {
	found := differences(direct, through)
	if transport == "stdio" {
		found = slices.DeleteFunc(found, func(d string) bool {
			return slices.ContainsFunc(s.overHTTP, func(known string) bool { return strings.HasPrefix(d, known) })
		})
	}
	return found
}

func TestConformance(t *testing.T) {
	dockertest.Image(t, image)
	for name, server := range servers() {
		t.Run(name, func(t *testing.T) { compare(t, server) })
	}
}

// compare checks that the suite has the same results with and without waza.
func compare(t *testing.T, server server) {
	dir := t.TempDir()
	if err := os.CopyFS(dir, os.DirFS(".")); err != nil {
		t.Fatal(err)
	}
	put(t, dir, server.command)
	var tasks []string
	for revision := range server.checks {
		for _, way := range append([]string{"direct"}, server.transports...) {
			tasks = append(tasks, way+"-"+revision)
		}
	}
	trials := run(t, dir, tasks...)
	for revision, checks := range server.checks {
		if n := trials["direct-"+revision].checks(); n != checks {
			t.Errorf("%s: %d checks beside the server, want %d", revision, n, checks)
		}
		for _, transport := range server.transports {
			t.Run(transport+"/"+revision, func(t *testing.T) {
				through := trials[transport+"-"+revision]
				t.Logf("%d scenarios, %d checks", len(through), through.checks())
				found := server.differences(transport, trials["direct-"+revision], through)
				for range repeats {
					if len(found) == 0 {
						return
					}
					t.Logf("once more, for:\n%s", strings.Join(found, "\n"))
					again := run(t, dir, "direct-"+revision, transport+"-"+revision)
					found = inBoth(found, server.differences(transport, again["direct-"+revision], again[transport+"-"+revision]))
				}
				for _, d := range found {
					t.Error(d)
				}
			})
		}
	}
}

// put changes the eval in dir and its tasks to use the server command.
func put(t *testing.T, dir, command string) {
	t.Helper()
	tasks, err := filepath.Glob(filepath.Join(dir, "tasks", "*.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range append(tasks, filepath.Join(dir, "eval.yaml")) {
		content, err := os.ReadFile(path)
		if err == nil {
			err = os.WriteFile(path, bytes.ReplaceAll(content, []byte(everything), []byte(command)), 0o644)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

// run runs the named tasks of the eval in dir, and returns the suite's findings by task.
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

// checkWay checks that the suite's messages went through the proxy, or did not. Otherwise
// the comparison would be meaningless.
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

// read reads results.json from a trial's workspace.
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
