package runner

import (
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/waza-isolate/waza/evidence"
	"github.com/waza-isolate/waza/runner/plan"
	"github.com/waza-isolate/waza/sandbox"
	"github.com/waza-isolate/waza/sandbox/observe"
)

// programTrialOf is a trial whose one grader runs a program in a container with the image
// "checker".
func programTrialOf(config string) *plan.Trial {
	t := testTrial(1)
	t.Graders = []evidence.GraderSpec{grader("program", config)}
	t.GraderContainers = []plan.GraderContainer{{Container: sandbox.Container{Image: "checker"}, Grader: "program", Command: []string{"check"}}}
	return t
}

// checkerBackend runs check in place of a grader's program, and the agent elsewhere.
func checkerBackend(check program) *fakeBackend {
	b := testBackend()
	agent := b.programs[sandbox.Agent]
	b.programs[sandbox.Agent] = program{deaf: check.deaf, immortal: check.immortal, run: func(p *fakeProcess) int {
		if p.container.spec.Container(sandbox.Agent).Image == "checker" {
			return check.run(p)
		}
		return agent.run(p)
	}}
	return b
}

func steps(t *testing.T, r Result) []evidence.Step {
	t.Helper()
	all, err := r.Dir.Steps()
	if err != nil {
		t.Fatal(err)
	}
	return all
}

func programAnswer(t *testing.T, r Result) evidence.ProgramAnswer {
	t.Helper()
	all := steps(t, r)
	if len(all) != 1 || all[0].Kind != evidence.StepProgram || all[0].Grader != "program" {
		t.Fatalf("steps %+v", all)
	}
	var a evidence.ProgramAnswer
	if err := json.Unmarshal(all[0].Answer, &a); err != nil {
		t.Fatalf("%s: %v", all[0].Answer, err)
	}
	return a
}

// A program gets the workspace as the agent left it and the agent's output, and nothing else
// of the trial: it runs in a sandbox of its own, opened after the trial's is closed.
func TestProgramOfAGrader(t *testing.T) {
	var stdin, dir, workspace string
	var env []string
	b := checkerBackend(program{run: func(p *fakeProcess) int {
		all, _ := io.ReadAll(p.in)
		stdin, dir, env = string(all), p.spec.Dir, p.spec.Env
		p.container.mu.Lock()
		workspace = p.container.files[sandbox.WorkspaceDir+"/notes.txt"].content
		p.container.mu.Unlock()
		io.WriteString(p.out, "all is well\n")
		return 0
	}})
	trial := programTrialOf(`{"command":"check","args":["-v"]}`)
	trial.Servers = append(trial.Servers, plan.Server{Name: "other", StartupTimeout: time.Second, Timeout: time.Second})
	b.programs["other"] = stockServer("x", "")
	r := runOne(t, b, trial, options(t))
	wantOutcome(t, r, evidence.ClassPass, "")
	if got := r.Verdicts.Verdicts[0].Feedback; got != "all is well" {
		t.Errorf("feedback %q", got)
	}
	if stdin != r.Trial.FinalOutput || !strings.Contains(stdin, "4.20") || dir != sandbox.HomeDir+"/grader" || workspace != "old" {
		t.Errorf("stdin %q, dir %q, file %q", stdin, dir, workspace)
	}
	if got := strings.Join(env, " "); got != "WAZA_WORKSPACE_DIR=/workspace HOME=/home/agent" {
		t.Errorf("environment %q", got)
	}
	opened := b.opened()
	if len(opened) != 2 {
		t.Fatalf("%d sandboxes", len(opened))
	}
	lone := opened[1].spec
	if lone.Network != "airtight" || len(lone.Containers) != 1 || lone.Container(sandbox.Agent).Image != "checker" || lone.Task == trial.Task {
		t.Errorf("the program's sandbox is of %+v", lone)
	}
	if a := programAnswer(t, r); a.ExitCode == nil || *a.ExitCode != 0 || a.Image != "checker" || a.Stdout.Text != "all is well\n" {
		t.Errorf("answer %+v", a)
	}
}

func TestHowProgramsOfGradersEnd(t *testing.T) {
	one := int64(1)
	for _, test := range []struct {
		name   string
		config string
		check  program
		used   evidence.Usage
		result evidence.VerdictResult
		want   string
	}{
		{"another exit code", `{"command":"check"}`, program{run: func(p *fakeProcess) int { io.WriteString(p.err, "no such file"); return 3 }}, evidence.Usage{},
			evidence.VerdictFail, `it exited with 3. Its stderr: "no such file"`},
		{"too long", `{"command":"check","timeout":2}`, lasts(), evidence.Usage{}, evidence.VerdictFail, "it ran longer than 2 s and was ended"},
		{"too long, and does not end", `{"command":"check","timeout":2}`, program{immortal: true, run: lasts().run}, evidence.Usage{}, evidence.VerdictFail, "it ran longer than 2 s"},
		{"out of memory", `{"command":"check"}`, ends(0), evidence.Usage{OOMKills: &one}, evidence.VerdictFail, "it exited with 0, and its container ran out of memory"},
		{"full disk", `{"command":"check"}`, ends(1), evidence.Usage{Disks: map[string]observe.Disk{"/tmp": {Size: 10, Full: true}}},
			evidence.VerdictFail, "it exited with 1, and its container filled /tmp"},
		{"does not read", `{"command":"check"}`, ends(0), evidence.Usage{}, evidence.VerdictPass, "The check holds."},
		{"says much", `{"command":"check"}`, program{run: func(p *fakeProcess) int { io.WriteString(p.out, strings.Repeat("x", 64<<10+7)); return 0 }}, evidence.Usage{},
			evidence.VerdictPass, "xxx"},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := checkerBackend(test.check)
				o := options(t)
				if test.used.OOMKills != nil || test.used.Disks != nil {
					b.usedBy = func(s *sandbox.Spec) evidence.Usage {
						if s.Container(sandbox.Agent).Image == "checker" {
							return test.used
						}
						return evidence.Usage{}
					}
				}
				r := runOne(t, b, programTrialOf(test.config), o)
				v := r.Verdicts.Verdicts[0]
				if v.Result != test.result || !strings.Contains(v.Feedback, test.want) {
					t.Errorf("%s: %s; want %s …%s…", v.Result, v.Feedback, test.result, test.want)
				}
				if a := programAnswer(t, r); test.name == "says much" && (len(a.Stdout.Text) != 64<<10 || a.Stdout.Cut != 7) {
					t.Errorf("%d bytes kept, %d cut", len(a.Stdout.Text), a.Stdout.Cut)
				}
			})
		})
	}
}

// What fails on our side is infra and tried again; what the eval's author has to mend
// is an error of the grader's.
func TestProgramsThatCannotRun(t *testing.T) {
	inChecker := func(s *sandbox.Spec) bool { return s.Container(sandbox.Agent).Image == "checker" }
	for _, test := range []struct {
		name, act string
		err       error
		ending    sandbox.Exit
		class     evidence.Class
		want      string
	}{
		{"no sandbox", "open", errors.New("no such image"), sandbox.Exit{}, evidence.ClassInfra, "no such image"},
		{"no such program", "start agent", errors.New("check: no such program"), sandbox.Exit{}, evidence.ClassError, "could not judge: program"},
		{"somebody ended it", "start agent", errors.New("gone"), sandbox.Exit{Cause: sandbox.FromOutside, Message: "was ended"}, evidence.ClassInfra, "was ended"},
		{"the engine went away", "put agent /workspace", errors.New("gone"), sandbox.Exit{Cause: sandbox.ByEngine, Message: "the engine went away"}, evidence.ClassInfra, "the engine went away"},
		{"no room for the workspace", "put agent /workspace", errors.New("no space left"), sandbox.Exit{}, evidence.ClassAgentError, "cannot be given what the agent left"},
		{"it cannot be taken down", "close", errors.New("stuck"), sandbox.Exit{}, evidence.ClassInfra, "stuck"},
	} {
		t.Run(test.name, func(t *testing.T) {
			b := checkerBackend(ends(0))
			b.onTrial = func(act string, s *fakeSandbox) error {
				if act != test.act || !inChecker(s.spec) {
					return nil
				}
				if test.ending != (sandbox.Exit{}) {
					s.lose(sandbox.Agent, test.ending)
				}
				return test.err
			}
			r := runOne(t, b, programTrialOf(`{"command":"check"}`), options(t))
			wantOutcome(t, r, test.class, test.want)
		})
	}
}

func TestProgramWithoutAWorkspace(t *testing.T) {
	b := checkerBackend(ends(0))
	b.collect[sandbox.WorkspaceDir] = func(io.Writer) error { return errors.New("it went away") }
	r := runOne(t, b, programTrialOf(`{"command":"check"}`), options(t))
	if v := r.Verdicts.Verdicts[0]; v.Result != evidence.VerdictError || !strings.Contains(v.Feedback, "it went away") || len(b.opened()) != 1 {
		t.Errorf("%+v, %d sandboxes", v, len(b.opened()))
	}
}

// An agent that ran out of time is graded for the record, and its verdicts are found
// again without any backend.
func TestProgramAfterATimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := checkerBackend(program{run: func(p *fakeProcess) int { return 5 }})
		checks := b.programs[sandbox.Agent].run
		b.programs[sandbox.Agent] = program{run: func(p *fakeProcess) int {
			if p.container.spec.Container(sandbox.Agent).Image != "checker" {
				return lasts().run(p)
			}
			return checks(p)
		}}
		o := options(t)
		r := runOne(t, b, programTrialOf(`{"command":"check"}`), o)
		if r.Verdicts.Class != evidence.ClassTimeout || !strings.Contains(r.Verdicts.Verdicts[0].Feedback, "exited with 5") {
			t.Errorf("%+v", r.Verdicts)
		}
		before := readAll(t, r.Dir, evidence.VerdictsFile)
		if err := gradeTrials(o.Dir); err != nil {
			t.Fatal(err)
		}
		if after := readAll(t, r.Dir, evidence.VerdictsFile); after != before {
			t.Errorf("graded again:\n%s\nbefore:\n%s", after, before)
		}
	})
}

func readAll(t *testing.T, dir evidence.Dir, name string) string {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(string(dir), name))
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}
