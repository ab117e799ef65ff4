package attacks

import (
	"bytes"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httputil"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/waza-isolate/waza/eval"
	"github.com/waza-isolate/waza/evidence"
	"github.com/waza-isolate/waza/internal/browsertest"
	"github.com/waza-isolate/waza/internal/dockertest"
	"github.com/waza-isolate/waza/internal/memtest"
	"github.com/waza-isolate/waza/runner"
	"github.com/waza-isolate/waza/sandbox/probe"
	"github.com/waza-isolate/waza/test/attacks/part"
)

// runLimit is more than any run takes.
const runLimit = 15 * time.Minute

const pollEvery = 100 * time.Millisecond

// stage is what runs of attacks share: the executable, the image of the hostile program, and
// listeners outside of all sandboxes.
type stage struct {
	t         *testing.T
	on        engine
	waza      string // the executable as it is
	image     string
	listeners []*listener
	away      string // URL of hostile remote servers
	cache     string // cache directory, with the certificate of unmodified executables
}

// engine is where runs take place.
type engine interface {
	// prepare puts into the directory of an eval what waza reads besides, and returns how the eval
	// is changed, and more arguments and variables of waza run.
	prepare(t *testing.T, dir string) (change func(*eval.Eval), args, env []string)
	// left lists what is left of a run of an eval.
	left(t *testing.T, r *Run, eval string) []string
	// remove removes it.
	remove(t *testing.T, r *Run, eval string)
}

// docker is the Docker engine.
type docker struct {
	args []string // of waza run
}

func (d docker) prepare(*testing.T, string) (func(*eval.Eval), []string, []string) {
	return nil, d.args, nil
}

func (docker) left(t *testing.T, _ *Run, eval string) (all []string) {
	engine := dockertest.Engine(t)
	for _, run := range dockertest.Runs(t, engine, eval) {
		all = append(all, dockertest.Objects(t, engine, run)...)
	}
	return all
}

func (docker) remove(t *testing.T, _ *Run, eval string) {
	engine := dockertest.Engine(t)
	for _, run := range dockertest.Runs(t, engine, eval) {
		dockertest.Remove(t, engine, run)
	}
}

func newStage(t *testing.T) *stage {
	t.Helper()
	s := &stage{t: t, on: docker{}, waza: dockertest.Waza(t), image: "waza-attacks/hostile:" + strings.ToLower(rand.Text())[:12], cache: t.TempDir()}
	dockertest.ScratchImage(t, s.image, "hostile", dockertest.Program(t, "test/attacks/hostile", "hostile"))
	client := dockertest.Tool(t, "docker")
	s.listeners = []*listener{
		watch(t, "the host", s.waza, probe.Subcommand, probe.Watch),
		watch(t, "another network", client, "run", "--interactive", "--rm", "--network", "bridge", "--memory", "64m", s.image, program, probe.Subcommand, probe.Watch),
	}
	away, heard := serveAway(t)
	s.away, s.listeners = away, append(s.listeners, heard)
	return s
}

// listener is a listener outside of all sandboxes, and what arrived there.
type listener struct {
	at    string
	place probe.Place

	mu       sync.Mutex
	arrivals []Arrival // guarded by mu
}

func (p *listener) add(a Arrival) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.arrivals = append(p.arrivals, a)
}

// watch starts a listener, which ends with its stdin.
func watch(t *testing.T, at string, command ...string) *listener {
	t.Helper()
	cmd := exec.Command(command[0], command[1:]...)
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	p := &listener{at: at}
	reported := json.NewDecoder(out)
	var reading sync.WaitGroup
	t.Cleanup(func() {
		_ = in.Close()
		reading.Wait()
		if err := cmd.Wait(); err != nil {
			t.Errorf("listener at %s: %v", at, err)
		}
	})
	if err := reported.Decode(&p.place); err != nil {
		t.Fatalf("listener at %s: %v", at, err)
	}
	reading.Go(func() {
		for {
			var a probe.Arrival
			if err := reported.Decode(&a); err != nil {
				_, _ = io.Copy(io.Discard, out)
				return
			}
			p.add(Arrival{a, at})
		}
	})
	return p
}

// arrivals returns everything that arrived from the run with a nonce.
func (s *stage) arrivals(nonce string) []Arrival {
	var all []Arrival
	for _, p := range s.listeners {
		p.mu.Lock()
		for _, a := range p.arrivals {
			if strings.HasPrefix(a.Nonce, nonce+".") {
				all = append(all, a)
			}
		}
		p.mu.Unlock()
	}
	return all
}

// run runs attacks with an executable, alone or with harmless trials between them, and collects
// what is needed to judge them.
func (s *stage) run(t *testing.T, waza string, attacks []Attack, alone bool) *Run {
	t.Helper()
	nonce := strings.ToLower(rand.Text())[:12]
	aims, err := json.Marshal(probe.Aims{
		Nonce: nonce, Host: s.listeners[0].place, Neighbour: s.listeners[1].place,
		Sibling: probe.Place{TCP4: part.Port}, SiblingAt: calm,
		Names:   []string{nonce + ".invalid", "host.docker.internal", "gateway.docker.internal"},
		Planted: probe.Reversed("planted-" + nonce), Foreigners: probe.Reversed("foreign-" + nonce),
	})
	if err != nil {
		t.Fatal(err)
	}
	g := Ground{Name: "attacks-" + nonce, Image: s.image, Aims: string(aims), Away: s.away + "/" + nonce, Alone: alone}
	dir := keptDir(t)
	var more, env []string
	g.Where, more, env = s.on.prepare(t, dir)
	neighbours, err := g.writeEval(dir, attacks)
	if err != nil {
		t.Fatal(err)
	}
	r := &Run{ID: nonce, Waza: waza, Dir: filepath.Join(dir, "run")}
	args := []string{"run", "--isolate", "eval.yaml", "--run-dir", r.Dir, "--infra-retries", "0"}
	args = append(args, more...)
	env = append(env, "XDG_CACHE_HOME="+s.cache)
	for _, a := range attacks {
		if a.Alone != nil {
			args = append(args, a.Alone.Args...)
		}
		if a.Alone != nil && a.Alone.Engine != nil {
			env = append(env, "DOCKER_HOST="+front(t, a.Alone.Engine))
		}
	}
	t.Cleanup(func() { s.on.remove(t, r, g.Name) })
	r.carryOut(t, dir, args, env, slices.ContainsFunc(attacks, func(a Attack) bool { return a.Alone != nil && a.Alone.Kill }))
	r.Arrivals = s.arrivals(nonce)
	r.look(t, s.on, g.Name)
	if data, err := os.ReadFile(filepath.Join(r.Dir, "results.json")); err == nil {
		if err := json.Unmarshal(data, &r.Results); err != nil {
			t.Error(err)
		}
	}
	for _, task := range neighbours {
		if got := r.Trial(task); got.Outcome != evidence.ClassPass && !r.Killed {
			r.Harmed = append(r.Harmed, fmt.Sprintf("%s ended as %q: %s %+v", task, got.Outcome, got.Message, got.Validations))
		}
	}
	r.Neighbours = len(neighbours)
	if slices.ContainsFunc(attacks, func(a Attack) bool { return a.Browse }) {
		r.browse(t)
	}
	return r
}

// front starts a proxy before the engine that changes requests to create containers, and returns
// its address for DOCKER_HOST.
func front(t *testing.T, change func(create []byte) []byte) string {
	t.Helper()
	return dockertest.Front(t, func(engine *httputil.ReverseProxy) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if strings.HasSuffix(r.URL.Path, "/containers/create") {
				body, err := io.ReadAll(r.Body)
				if err != nil {
					t.Error(err)
				}
				body = change(body)
				r.Body, r.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
			}
			engine.ServeHTTP(w, r)
		})
	})
}

// browse opens the report in a browser, and keeps its text. If the page did something that it must
// not, the browser may be elsewhere, and is not asked for the text.
func (r *Run) browse(t *testing.T) {
	t.Helper()
	page := browsertest.Start(t).Open(t, "file://"+filepath.Join(r.Dir, "report.html"), browsertest.View{})
	if r.Noted = page.Notes(); len(r.Noted) > 0 {
		return
	}
	r.Browsed = browsertest.Eval[string](page, "document.documentElement.textContent")
	r.Noted = page.Notes()
}

// keptDir returns a directory that is removed when the test ends, unless it failed.
func keptDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "waza-attacks-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("kept: %s", dir)
		} else if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	return dir
}

// carryOut runs waza to its end.
func (r *Run) carryOut(t *testing.T, dir string, args, env []string, kill bool) {
	t.Helper()
	cmd := exec.Command(r.Waza, args...)
	var output bytes.Buffer
	cmd.Dir, cmd.Stdout, cmd.Stderr = dir, &output, &output
	cmd.Env = slices.Concat(os.Environ(), env, []string{"PLANTED=planted-" + r.ID, part.SecretEnv + "=" + part.Secret(r.ID), part.ModelKeyEnv + "=key-" + r.ID})
	cmd.WaitDelay = 10 * time.Second
	started := time.Now()
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	peak := memtest.WatchPeak(cmd.Process.Pid)
	if kill {
		r.Killed = killed(t, cmd.Process, r.ID)
	}
	late := time.AfterFunc(runLimit, func() { _ = cmd.Process.Signal(syscall.SIGQUIT) })
	err := cmd.Wait()
	if !late.Stop() {
		t.Errorf("waza did not end within %s", runLimit)
	}
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Error(err)
	}
	r.Took, r.Exit, r.Output = time.Since(started), cmd.ProcessState.ExitCode(), output.String()
	if r.PeakRSS = peak(); r.PeakRSS == 0 {
		t.Error("nobody saw how much memory the runner took")
	}
}

// killed kills waza once a process of an attacker lingers, and reports whether one did.
func killed(t *testing.T, waza *os.Process, nonce string) bool {
	t.Helper()
	for until := time.Now().Add(runLimit); time.Now().Before(until); time.Sleep(pollEvery) {
		if len(lingering(t, nonce)) > 0 {
			return waza.Kill() == nil
		}
	}
	return false
}

// lingering returns the command lines of processes that attackers of a run started to outlive it.
// Processes in containers of an engine on this machine are among its processes.
func lingering(t *testing.T, nonce string) []string {
	t.Helper()
	files, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil || len(files) == 0 {
		t.Fatalf("%d processes, %v", len(files), err)
	}
	var found []string
	for _, file := range files {
		line, _ := os.ReadFile(file) // it may have ended
		if words := strings.ReplaceAll(string(line), "\x00", " "); strings.Contains(words, " linger on "+nonce+".") {
			found = append(found, words)
		}
	}
	return found
}

// look records what is left on the engine. After a killed runner it first waits for containers to
// end by themselves.
func (r *Run) look(t *testing.T, on engine, eval string) {
	t.Helper()
	for until := time.Now().Add(dockertest.Dying); ; time.Sleep(pollEvery) {
		r.Left, r.Alive = on.left(t, r, eval), lingering(t, r.ID)
		dead := len(r.Alive) == 0 && !slices.ContainsFunc(r.Left, isContainer)
		if !r.Killed || dead || time.Now().After(until) {
			return
		}
	}
}

// scene returns the trial in which an attack of a run took place.
func (r *Run) scene(a Attack) Scene {
	return Scene{Run: r, Attack: a.Name, Task: a.taskOf(), Dir: runner.TrialDir(r.Dir, a.taskOf(), 1)}
}
