package runner

import (
	"archive/tar"
	"context"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/waza-isolate/waza/evidence"
	"github.com/waza-isolate/waza/evidence/secret"
	"github.com/waza-isolate/waza/runner/plan"
	"github.com/waza-isolate/waza/sandbox"
)

// testTrial is a trial of a command that reads its prompt from stdin, with one
// server and one fixture.
func testTrial(number int) *plan.Trial {
	return &plan.Trial{
		Run: "run-1", Task: "buy", TaskName: "Buy a bolt", Number: number, Network: "bridge", Workspace: "tmpfs", Timeout: time.Minute,
		Agent: plan.Agent{
			Container: sandbox.Container{Image: "agent", Disk: 1 << 20}, Executor: "command", Command: []string{"buyer"},
			Dir: sandbox.WorkspaceDir, Prompt: "Buy a bolt.", PromptBy: "stdin",
		},
		Servers: []plan.Server{{Name: "stock", Files: []plan.File{plan.NewFile("/data/db", "bolts")}, StartupTimeout: time.Second, Timeout: time.Second}},
		Files:   []plan.File{plan.NewFile("notes.txt", "old")},
		Graders: []evidence.GraderSpec{grader("text", `{"contains":["4.20"]}`)},
	}
}

func grader(kind, config string) evidence.GraderSpec {
	return evidence.GraderSpec{Name: kind, Type: kind, Weight: 1, Config: json.RawMessage(config)}
}

// testBackend has all that testTrial needs.
func testBackend() *fakeBackend {
	return &fakeBackend{
		programs: map[string]program{sandbox.Agent: buyer("stock"), "stock": stockServer("4.20", "stock is open\n")},
		on:       map[string]func(int) error{},
		collect:  map[string]func(io.Writer) error{},
	}
}

// updates collects progress.
type updates struct {
	mu  sync.Mutex
	all []Update // guarded by mu
}

func (u *updates) add(update Update) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.all = append(u.all, update)
}

func options(t testing.TB) Options {
	o := Options{Dir: t.TempDir(), Workers: 1, Progress: func(Update) {}}
	o.Host.Secrets = &secret.Set{}
	return o
}

// runOne runs one trial, which must have a result.
func runOne(t *testing.T, b *fakeBackend, trial *plan.Trial, o Options) Result {
	t.Helper()
	results, err := runTrials(t, t.Context(), b, []*plan.Trial{trial}, o)
	if err != nil || len(results) != 1 {
		t.Fatalf("got %d results and %v", len(results), err)
	}
	for _, s := range b.opened() {
		if n := s.count("close"); n != 1 {
			t.Errorf("the sandbox was closed %d times: %q", n, s.log())
		}
	}
	return results[0]
}

// runTrials calls [RunTrials] and reads the results of the completed trials.
func runTrials(t testing.TB, ctx context.Context, b sandbox.Opener, trials []*plan.Trial, o Options) (results []Result, err error) {
	t.Helper()
	dirs, err := RunTrials(ctx, b, trials, o)
	for _, dir := range dirs {
		r := Result{Dir: dir}
		var errs [3]error
		r.Trial, errs[0] = dir.Trial()
		r.Verdicts, errs[1] = dir.Verdicts()
		r.Earlier, errs[2] = dir.Earlier()
		if err := errors.Join(errs[:]...); err != nil {
			t.Fatal(err)
		}
		results = append(results, r)
	}
	return results, err
}

func wantOutcome(t *testing.T, r Result, class evidence.Class, reason string) {
	t.Helper()
	if r.Verdicts.Class != class || !strings.Contains(r.Verdicts.Message, reason) || reason == "" && r.Verdicts.Message != "" {
		t.Errorf("outcome %s: %q, want %s: …%q…", r.Verdicts.Class, r.Verdicts.Message, class, reason)
	}
}

func TestALifeInOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, o, seen := testBackend(), options(t), &updates{}
		o.Progress = seen.add
		b.on["collect agent /workspace"] = func(int) error { time.Sleep(time.Second); return nil }
		r := runOne(t, b, testTrial(1), o)
		wantOutcome(t, r, evidence.ClassPass, "")

		want := []string{
			"open", "put stock /", "start stock", "put agent /workspace",
			"listen", "start agent", "start stock",
			"collect agent /workspace", "close",
		}
		got := slices.DeleteFunc(b.opened()[0].log(), func(act string) bool { return strings.HasPrefix(act, "signal") })
		if diff := cmp.Diff(want, got); diff != "" {
			t.Error(diff)
		}
		if diff := cmp.Diff([]evidence.Phase{evidence.PhaseStart, evidence.PhaseProbe, evidence.PhaseAgent, evidence.PhaseCollect, evidence.PhaseDone}, seen.phases()); diff != "" {
			t.Error(diff)
		}
		if last := seen.all[len(seen.all)-1]; last.Task != "buy" || last.Number != 1 || last.Result.Verdicts.Class != evidence.ClassPass {
			t.Errorf("last update %+v", last)
		}
		checkEvidence(t, o.Dir, r)
	})
}

func checkEvidence(t *testing.T, run string, r Result) {
	t.Helper()
	if want := filepath.Join(run, "trials", "buy", "1"); string(r.Dir) != want {
		t.Errorf("evidence is in %s, want %s", r.Dir, want)
	}
	calls, err := r.Dir.Calls()
	if err != nil || len(calls) != 1 || calls[0].Server != "stock" || calls[0].Tool != "price" || calls[0].Outcome != evidence.OutcomeOK {
		t.Errorf("calls %+v, %v", calls, err)
	}
	trial := r.Trial
	if trial.ExitCode == nil || *trial.ExitCode != 0 || !strings.Contains(trial.FinalOutput, "4.20") || trial.Guarantees.Backend != "fake" {
		t.Errorf("trial %+v", trial)
	}
	times := []time.Time{trial.Started, trial.AgentStart, trial.AgentEnd, trial.Ended}
	if !slices.IsSortedFunc(times, time.Time.Compare) || trial.Ended.Sub(trial.Started) < time.Second {
		t.Errorf("times %v", times)
	}
	for name, want := range map[string]string{
		"servers/stock.stderr": "stock is open\nstock is open\n", // the probe's process, and the session's
		"agent.stderr":         "",
	} {
		if got, err := os.ReadFile(filepath.Join(string(r.Dir), name)); err != nil || string(got) != want {
			t.Errorf("%s: %q, %v", name, got, err)
		}
	}
	for _, name := range []string{evidence.BeforeFile, evidence.WorkspaceFile} {
		var got []byte
		tree := tar.NewReader(strings.NewReader(readAll(t, r.Dir, name)))
		header, err := tree.Next()
		if err == nil && header.Name == "notes.txt" {
			got, err = io.ReadAll(tree)
		}
		if err != nil || string(got) != "old" {
			t.Errorf("%s: notes.txt %q, %v", name, got, err)
		}
	}
}

func TestInfraBeforeTheAgent(t *testing.T) {
	broken := errors.New("engine on fire")
	for _, test := range []struct {
		act, reason string
		server      program
	}{
		{"open", "engine on fire", program{}},
		{"put stock /", `files of server "stock": engine on fire`, program{}},
		{"start stock", `MCP server "stock" did not start: engine on fire`, program{}},
		{"", "did not answer in time", lasts()},
		{"listen", "engine on fire", program{}},
		{"put agent /workspace", "engine on fire", program{}},
		{"start agent", "agent: engine on fire", program{}},
	} {
		t.Run(test.act+test.reason, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := testBackend()
				if test.server.run != nil {
					b.programs["stock"] = test.server
				}
				b.on[test.act] = fails(broken)
				r := runOne(t, b, testTrial(1), options(t))
				wantOutcome(t, r, evidence.ClassInfra, test.reason)
				if len(r.Verdicts.Verdicts) > 0 || !r.Trial.AgentStart.IsZero() {
					t.Errorf("verdicts %v, agent started %v", r.Verdicts.Verdicts, r.Trial.AgentStart)
				}
				if test.act == "open" && len(b.opened()) > 0 {
					t.Error("there is a sandbox")
				}
			})
		})
	}
}

// What a sandbox knows of a container is said where a program does not come up in it for what it may not do,
// and not where it came up and answered wrongly.
func TestAdvice(t *testing.T) {
	ends := func(said string) program {
		return program{run: func(p *fakeProcess) int { io.WriteString(p.err, said); return 1 }}
	}
	for name, test := range map[string]struct {
		server  program
		act     string
		advised bool
	}{
		"exits":                       {ends("mkdir: Read-only file system\n"), "", true},
		"exits for something else":    {ends("no such option\n"), "", false},
		"does not start":              {program{}, "start stock", true},
		"agent cannot start":          {program{}, "start agent", true},
		"never answers":               {lasts(), "", false},
		"broken container on the way": {program{}, "put stock /", false},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := testBackend()
				b.advice = map[string]string{"stock": "it has no roof", sandbox.Agent: "it has no roof"}
				if test.server.run != nil {
					b.programs["stock"] = test.server
				}
				b.on[test.act] = fails(errors.New("permission denied"))
				r := runOne(t, b, testTrial(1), options(t))
				if got := strings.HasSuffix(r.Verdicts.Message, "\nhint: it has no roof"); got != test.advised || r.Verdicts.Class.OfAgent() {
					t.Errorf("%s: %s", r.Verdicts.Class, r.Verdicts.Message)
				}
			})
		})
	}
}

// An agent that ends for what it may not do gets what its sandbox knows of its container.
func TestAdviceForTheAgent(t *testing.T) {
	for name, test := range map[string]struct {
		says    string
		advised bool
	}{"silent": {"", false}, "denied": {"mkdir: Permission denied\n", true}, "at a loss": {"no luck\n", false}} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := testBackend()
				b.advice = map[string]string{sandbox.Agent: "it has no roof"}
				b.programs[sandbox.Agent] = program{run: func(p *fakeProcess) int { io.WriteString(p.err, test.says); return 1 }}
				r := runOne(t, b, testTrial(1), options(t))
				if got := strings.Contains(r.Verdicts.Message, "\nhint: it has no roof"); got != test.advised || r.Verdicts.Class != evidence.ClassAgentError {
					t.Errorf("%s: %s", r.Verdicts.Class, r.Verdicts.Message)
				}
			})
		})
	}
}

func TestInterruptedInEachPhase(t *testing.T) {
	for _, act := range []string{
		"open", "put stock /", "start stock", "put agent /workspace", "listen", "start agent", "collect agent /workspace",
	} {
		t.Run(act, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithCancelCause(t.Context())
				b, o := testBackend(), options(t)
				b.on[act] = func(int) error {
					number := len(b.opened())
					if act == "open" {
						number++ // this one does not count yet
					}
					if number == 1 {
						return nil // the first trial lives
					}
					cancel(errors.New("enough"))
					if act == "open" {
						return ctx.Err()
					}
					return nil
				}
				results, err := runTrials(t, ctx, b, []*plan.Trial{testTrial(1), testTrial(2), testTrial(3)}, o)
				if err != nil || len(results) != 1 || results[0].Trial.Number != 1 {
					t.Errorf("results %v and %v, want the first trial's", results, err)
				}
				for _, s := range b.opened() {
					if s.count("close") != 1 {
						t.Errorf("not closed once: %q", s.log())
					}
				}
				if trials, err := Trials(o.Dir); err != nil || len(trials) != 1 {
					t.Errorf("trials %v, %v", trials, err)
				}
				events, err := TrialDir(o.Dir, "buy", 2).Events()
				if err != nil || !slices.ContainsFunc(events, func(e evidence.Event) bool { return e.Kind == "interrupted" }) {
					t.Errorf("events %v, %v", events, err)
				}
				if _, err := os.Stat(string(TrialDir(o.Dir, "buy", 3))); !errors.Is(err, os.ErrNotExist) {
					t.Errorf("trial 3 was begun: %v", err)
				}
			})
		})
	}
}

func TestInterruptedAgentIsStopped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		b, o := testBackend(), options(t)
		b.programs[sandbox.Agent] = program{deaf: true, run: func(p *fakeProcess) int { cancel(); <-p.ctx.Done(); return 0 }}
		results, err := runTrials(t, ctx, b, []*plan.Trial{testTrial(1)}, o)
		if err != nil || len(results) != 0 {
			t.Errorf("results %v, %v", results, err)
		}
		log := strings.Join(b.opened()[0].log(), ", ")
		if !strings.Contains(log, "signal SIGTERM, signal SIGKILL") || !strings.HasSuffix(log, "close") {
			t.Errorf("acts: %s", log)
		}
	})
}

func TestCloseFails(t *testing.T) {
	stuck := errors.New("remove container: in use")
	for _, test := range []struct {
		name   string
		agent  program
		class  evidence.Class
		reason string
	}{
		{"after a good agent", buyer("stock"), evidence.ClassInfra, "remove container: in use"},
		{"after a bad agent", ends(3), evidence.ClassAgentError, "the agent exited with code 3; remove container: in use"},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := testBackend()
				b.programs[sandbox.Agent] = test.agent
				b.on["close"] = fails(stuck)
				wantOutcome(t, runOne(t, b, testTrial(1), options(t)), test.class, test.reason)
			})
		})
	}
	t.Run("after an interruption", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			b := testBackend()
			b.on["start agent"] = func(int) error { cancel(); return nil }
			b.on["close"] = fails(stuck)
			results, err := runTrials(t, ctx, b, []*plan.Trial{testTrial(1)}, options(t))
			if len(results) != 0 || !errors.Is(err, stuck) {
				t.Errorf("results %v, %v", results, err)
			}
		})
	})
}
