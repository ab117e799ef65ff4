package main

import (
	"bytes"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/txtar"

	"github.com/waza-isolate/waza/evidence"
	"github.com/waza-isolate/waza/internal/dockertest"
	"github.com/waza-isolate/waza/internal/upstreamtest"
	"github.com/waza-isolate/waza/results"
	"github.com/waza-isolate/waza/runner"
)

const (
	debian     = "debian:bookworm-slim"
	inventory  = "waza-examples/inventory"
	npmServers = "waza-examples/npm-servers"
	goMemory   = "waza-examples/go-memory"

	// runLimit is more than any run in these tests takes.
	runLimit = 20 * time.Minute
)

// project is a directory with an eval, in which waza is run as a separate program.
type project struct {
	t    *testing.T
	name string // of the eval, and so part of its runs' ids
	dir  string
	env  []string
	waza string // the executable
}

// newProject returns a project to run in containers. At the end of the test, nothing of its
// runs must be left on the engine.
func newProject(t *testing.T, archive string, images ...string) *project {
	t.Helper()
	for _, image := range append(images, debian) {
		dockertest.Image(t, image)
	}
	p := unpackProject(t, archive)
	engine := dockertest.Engine(t)
	t.Cleanup(func() {
		for _, run := range dockertest.Runs(t, engine, p.name) {
			dockertest.NoObjects(t, engine, run)
		}
	})
	return p
}

// unpackProject unpacks an archive in which NAME stands for the eval's name. The directory of a
// failed test is kept.
func unpackProject(t *testing.T, archive string) *project {
	t.Helper()
	random := make([]byte, 6)
	_, _ = rand.Read(random)
	dir, err := os.MkdirTemp("", "waza-e2e-")
	if err != nil {
		t.Fatal(err)
	}
	p := &project{t: t, name: "e2e-" + hex.EncodeToString(random), dir: dir, env: os.Environ(), waza: dockertest.Waza(t)}
	for _, f := range txtar.Parse([]byte(strings.ReplaceAll(archive, "NAME", p.name))).Files {
		p.write(f.Name, string(f.Data))
	}
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("kept: %s", dir)
			return
		}
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	return p
}

// in returns the project for a subtest, so that what fails ends the subtest alone.
func (p *project) in(t *testing.T) *project {
	sub := *p
	sub.t = t
	return &sub
}

func (p *project) path(elem ...string) string {
	return filepath.Join(append([]string{p.dir}, elem...)...)
}

func (p *project) write(name, content string) {
	p.t.Helper()
	path := p.path(name)
	if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(content), 0o644)); err != nil {
		p.t.Fatal(err)
	}
}

func (p *project) read(elem ...string) string {
	p.t.Helper()
	data, err := os.ReadFile(p.path(elem...))
	if err != nil {
		p.t.Fatal(err)
	}
	return string(data)
}

func (p *project) exists(elem ...string) bool {
	_, err := os.Stat(p.path(elem...))
	return err == nil
}

// compile builds a package as a static program into the project; dir is relative to this one.
func (p *project) compile(name, dir string) {
	p.t.Helper()
	copyFile(p.t, dockertest.Program(p.t, path.Join("cmd/waza", dir), filepath.Base(name)), p.path(name), 0o755)
}

// command is a running waza.
type command struct {
	t      *testing.T
	cmd    *exec.Cmd
	stdout output
	stderr output
	ended  chan struct{}
	code   int // exit code, -1 for a signal; valid once ended is closed
}

// output is a buffer that can be read while it is written.
type output struct {
	mu   sync.Mutex
	text bytes.Buffer // guarded by mu
}

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.Write(p)
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.String()
}

// start starts waza in the project.
func (p *project) start(args ...string) *command {
	p.t.Helper()
	return p.startProgram(p.waza, args...)
}

// startProgram starts another program in the project.
func (p *project) startProgram(path string, args ...string) *command {
	p.t.Helper()
	c := &command{t: p.t, cmd: exec.Command(path, args...), ended: make(chan struct{})}
	c.cmd.Dir, c.cmd.Env, c.cmd.Stdout, c.cmd.Stderr = p.dir, p.env, &c.stdout, &c.stderr
	if err := c.cmd.Start(); err != nil {
		p.t.Fatal(err)
	}
	go func() {
		_ = c.cmd.Wait()
		c.code = c.cmd.ProcessState.ExitCode()
		close(c.ended)
	}()
	p.t.Cleanup(c.end)
	return c
}

// end ends a command that a test left running, so that it cleans up.
func (c *command) end() {
	select {
	case <-c.ended:
		return
	default:
	}
	_ = c.cmd.Process.Signal(os.Interrupt)
	select {
	case <-c.ended:
	case <-time.After(runLimit):
		_ = c.cmd.Process.Kill()
		<-c.ended
	}
}

// wait waits for the command's end and checks the exit code.
func (c *command) wait(code int) *command {
	c.t.Helper()
	return c.waitFor(code, runLimit)
}

// waitFor is like wait, with a limit.
func (c *command) waitFor(code int, limit time.Duration) *command {
	c.t.Helper()
	c.waitEnd(limit)
	if c.code != code {
		c.t.Fatalf("waza %s: exit code %d, want %d\n%s%s", strings.Join(c.cmd.Args[1:], " "), c.code, code, c.stdout.String(), c.stderr.String())
	}
	return c
}

// waitEnd waits for the command's end, whatever its exit code.
func (c *command) waitEnd(limit time.Duration) {
	c.t.Helper()
	select {
	case <-c.ended:
	case <-time.After(limit):
		_ = c.cmd.Process.Signal(syscall.SIGQUIT) // shows where it stands
		<-c.ended
		c.t.Fatalf("waza did not end within %s\n%s", limit, c.stderr.String())
	}
}

func (c *command) signal(s os.Signal) {
	c.t.Helper()
	if err := c.cmd.Process.Signal(s); err != nil && !errors.Is(err, os.ErrProcessDone) {
		c.t.Fatal(err)
	}
}

// run runs the project's eval into the directory run and checks the exit code.
func (p *project) run(code int, args ...string) *command {
	p.t.Helper()
	return p.start(append([]string{"run", "--isolate", "eval.yaml", "--run-dir", "run"}, args...)...).wait(code)
}

// runID returns the id of the run in the directory run.
func (p *project) runID() string { return p.record().ID }

func (p *project) record() runner.Record {
	p.t.Helper()
	record, err := runner.ReadRecord(p.path("run"))
	if err != nil {
		p.t.Fatal(err)
	}
	return record
}

func (p *project) results() results.Results {
	p.t.Helper()
	return p.resultsIn("run")
}

// resultsIn returns the results of a run in a directory of the project.
func (p *project) resultsIn(dir string) results.Results {
	p.t.Helper()
	var r results.Results
	data := []byte(p.read(dir, "results.json"))
	upstreamtest.Read(p.t, data)
	if err := json.Unmarshal(data, &r); err != nil {
		p.t.Fatal(err)
	}
	return r
}

// runOf returns the first trial of a task in the results.
func (p *project) runOf(task string) results.RunResult {
	p.t.Helper()
	return firstRun(p.t, p.results(), task)
}

func firstRun(t *testing.T, all results.Results, task string) results.RunResult {
	t.Helper()
	for _, found := range all.Tasks {
		if found.TestID == task && len(found.Runs) > 0 {
			return found.Runs[0]
		}
	}
	t.Fatalf("results have no trial of task %s", task)
	return results.RunResult{}
}

// trial returns the evidence of a task's first trial.
func (p *project) trial(task string) evidence.Dir { return p.trialOf(task, 1) }

func (p *project) trialOf(task string, number int) evidence.Dir {
	return runner.TrialDir(p.path("run"), task, number)
}
