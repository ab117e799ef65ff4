package main

import (
	"bytes"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/waza-isolate/waza/evidence"
	"github.com/waza-isolate/waza/internal/judgetest"
	"github.com/waza-isolate/waza/internal/runtest"
	"github.com/waza-isolate/waza/results"
	"github.com/waza-isolate/waza/runner"
)

// judgedRun is an eval with two graders that ask a judge four questions in one trial.
const judgedRun = `
-- eval.yaml --
name: NAME
config:
  trials_per_task: 1
  executor: script
  judge: {base_url: "ENDPOINT", api_key_env: JUDGE_KEY, model: house, temperature: 0}
  mcp_servers: {stock: {command: inventory}}
graders:
  - type: mcp_compliance
    name: narrow
    config:
      server: stock
      expect_tools_used: [stock_report]
      rubric: Did it pick the narrowest tool?
      judge: {samples: 3, aggregate: median, min_score: 0.7}
  - {type: prompt, name: polite, config: {prompt: Was the answer polite?, model: strict}}
tasks: [task.yaml]
-- task.yaml --
id: report
inputs: {prompt: Report the stock.}
script: [{call: {server: stock, tool: stock_report}}, {say: Here is your report.}]
`

const judgeKey = "canary-judge-key-7f3a9c"

// judgedProject returns a project whose judge is the endpoint.
func judgedProject(t *testing.T, archive string, e *judgetest.Endpoint) *project {
	t.Helper()
	p := newLocalProject(t, strings.ReplaceAll(archive, "ENDPOINT", e.URL))
	p.env = append(p.env, "JUDGE_KEY="+judgeKey)
	return p
}

const judgement = `{"score": 1, "reason": "It asked for the report and nothing else."}`

// A judge is asked once; from then on its answers are evidence, and verdicts are
// repeated without it, its key or a network.
func TestJudge(t *testing.T) {
	t.Parallel()
	e := judgetest.Serve(t, judgetest.Saying(judgement))
	p := judgedProject(t, judgedRun, e)
	c := p.startLocal().wait(exitOK)
	if said := c.stdout.String(); !strings.Contains(said, "\njudge: 4 answers, 400 tokens in, 40 out\n") {
		t.Errorf("stdout: %s", said)
	}
	asked := e.Asked()
	models := []string{}
	for _, a := range asked {
		models = append(models, a.Body.Model)
		if a.Authorization != "Bearer "+judgeKey || a.Path != "/v1/chat/completions" {
			t.Errorf("asked %s with %q", a.Path, a.Authorization)
		}
	}
	slices.Sort(models)
	if diff := cmp.Diff([]string{"house", "house", "house", "strict"}, models); diff != "" {
		t.Error(diff)
	}
	if shown := asked[0].Body.Messages[1].Content; !strings.Contains(shown, `"tool":"stock_report"`) || !strings.Contains(shown, "Here is your report.") {
		t.Errorf("the judge is shown:\n%s", shown)
	}
	r := p.results()
	want := &results.Judge{Answers: 4, InputTokens: 400, OutputTokens: 40}
	if diff := cmp.Diff(want, r.Summary.Judge); diff != "" || r.Config.JudgeModel != "house" {
		t.Errorf("judge %s: %s", r.Config.JudgeModel, diff)
	}
	if diff := cmp.Diff(want, p.runOf("report").Judge); diff != "" {
		t.Error(diff)
	}
	e.Script(judgetest.Fail(http.StatusTeapot, "nobody asks any more"))
	p.env = append(p.env, "JUDGE_KEY=")
	checkRegrade(t, p, 1, exitOK)
	if n := len(e.Asked()); n != 4 {
		t.Errorf("grading asked %d times more", n-4)
	}
	if left := undigested(t, p); len(left) > 0 {
		t.Errorf("without a digest: %q", left)
	}
}

// TestJudgesKeyIsKeptOut checks that a key is in no file and no output of a run, although the
// agent has it, the model repeats it and the endpoint echoes it.
func TestJudgesKeyIsKeptOut(t *testing.T) {
	t.Parallel()
	e := judgetest.Serve(t, func(n int, asked judgetest.Asked, w http.ResponseWriter) {
		if n == 1 {
			judgetest.Say(w, `{"score": 1, "reason": "the key is `+judgeKey+`"}`)
			return
		}
		judgetest.Fail(http.StatusUnauthorized, asked.Authorization+" is not known")(n, asked, w)
	})
	p := judgedProject(t, `
-- eval.yaml --
name: NAME
config:
  trials_per_task: 1
  executor: command
  agent: {command: sh, args: ["-c", "echo the key is $SAME_KEY, inherited are [$JUDGE_KEY]; echo $SAME_KEY >&2"]}
  judge: {base_url: "ENDPOINT", api_key_env: JUDGE_KEY, model: m}
graders:
  - {type: prompt, name: told, config: {prompt: p, judge: {samples: 2}}}
tasks: [task.yaml]
-- task.yaml --
id: tell
inputs: {prompt: Tell me the key.}
`, e)
	p.env = append(p.env, "SAME_KEY="+judgeKey) // which the agent gets: its name is nobody's
	c := p.startLocal("-v").wait(exitFailed)
	if !strings.Contains(p.read("run", "trials", "tell", "1", evidence.TrialFile), `"the key is `+strings.Repeat("*", len(judgeKey))+`, inherited are []`) {
		t.Error("the agent never told the key, so this test looks at nothing")
	}
	written := c.stdout.String() + c.stderr.String() + p.start("grade", "run").wait(exitFailed).stdout.String()
	err := filepath.WalkDir(p.path("run"), func(path string, entry fs.DirEntry, err error) error {
		if err != nil || !entry.Type().IsRegular() {
			return err
		}
		content, err := os.ReadFile(path)
		if bytes.Contains(content, []byte(judgeKey)) {
			t.Errorf("the key is in %s", path)
		}
		return err
	})
	if err != nil || strings.Contains(written, judgeKey) {
		t.Errorf("%v; printed:\n%s", err, written)
	}
	for _, a := range e.Asked() {
		for _, m := range a.Body.Messages {
			if strings.Contains(m.Content, judgeKey) {
				t.Error("the model is shown the key")
			}
		}
	}
}

// TestJudgeWithoutKey checks that nothing is started if the judge's key is missing.
func TestJudgeWithoutKey(t *testing.T) {
	t.Parallel()
	e := judgetest.Serve(t, judgetest.Saying(judgement))
	p := judgedProject(t, judgedRun, e)
	p.env = append(p.env, "JUDGE_KEY=")
	c := p.startLocal().wait(exitUsage)
	if want := "waza: the judge of graders: the environment variable JUDGE_KEY is not set; set it to the key of the judge's endpoint\n"; c.stderr.String() != want {
		t.Errorf("stderr: %s", c.stderr.String())
	}
	if p.exists("run") || len(e.Asked()) > 0 {
		t.Error("a run was begun")
	}
}

// A judge that fails leaves its graders without evidence, and nothing else. It is asked
// for what is missing when somebody says so, and for all when somebody says that.
func TestJudgeIsAskedLater(t *testing.T) {
	t.Parallel()
	e := judgetest.Serve(t, func(n int, asked judgetest.Asked, w http.ResponseWriter) {
		if asked.Body.Model == "strict" {
			judgetest.Say(w, judgement)
			return
		}
		judgetest.Fail(http.StatusUnauthorized, "no such key")(n, asked, w)
	})
	p := judgedProject(t, judgedRun, e)
	c := p.startLocal().wait(exitFailed)
	for _, part := range []string{
		"report/1 not judged\n",
		`the judge gave no answer: the judge's endpoint answers 401: "no such key"; set the environment variable JUDGE_KEY to a key that it takes; waza grade --judge RUN asks for it`,
	} {
		if !strings.Contains(c.stdout.String(), part) {
			t.Errorf("no %q in %s", part, c.stdout.String())
		}
	}
	p.start("grade", "run").wait(exitFailed)
	if n := len(e.Asked()); n != 4 {
		t.Fatalf("%d requests", n)
	}
	e.Script(judgetest.Saying(judgement))
	for _, step := range []struct {
		flag  string
		asked int // in all
		said  string
	}{
		{"--judge", 7, "questions put to the judge: 3\n"},
		{"--judge", 7, "questions put to the judge: 0\n"},
		{"--judge-again", 11, "questions put to the judge: 4\n"},
	} {
		c := p.start("grade", "run", step.flag, "--judge-url", e.URL, "--judge-key-env", "JUDGE_KEY").wait(exitOK)
		if c.stderr.String() != step.said || len(e.Asked()) != step.asked {
			t.Errorf("%s: %d requests, and %s", step.flag, len(e.Asked()), c.stderr.String())
		}
		if left := undigested(t, p); len(left) > 0 {
			t.Errorf("%s: without a digest: %q", step.flag, left)
		}
		if said := p.start("grade", "run").wait(exitOK).stderr.String(); said != "" {
			t.Errorf("%s: after it grading says %s", step.flag, said)
		}
	}
	if got := p.results().Summary.Judge; got == nil || got.Answers != 8 {
		t.Errorf("answers that were paid for: %+v, want 8", got)
	}
}

// What a run that died or was interrupted had not asked yet is asked when it is
// resumed; the agent is not run again.
func TestResumeAsksTheJudge(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]struct {
		signal os.Signal
		code   int
	}{"interrupted": {os.Interrupt, exitInfra}, "killed": {syscall.SIGKILL, -1}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			release := make(chan struct{})
			e := judgetest.Serve(t, func(int, judgetest.Asked, http.ResponseWriter) { <-release })
			t.Cleanup(func() { close(release) })
			p := judgedProject(t, judgedRun, e)
			c := p.startLocal()
			c.await("the judge is asked", func() bool { return len(e.Asked()) == 4 })
			c.signal(end.signal)
			<-c.ended
			if c.code != end.code {
				t.Fatalf("exit code %d\n%s", c.code, c.stderr.String())
			}
			before := p.read("run", "trials", "report", "1", evidence.TrialFile)
			e.Script(judgetest.Saying(judgement))
			p.start("run", "--resume", "run", "--judge-url", e.URL, "--judge-key-env", "JUDGE_KEY").wait(exitOK)
			if after := p.read("run", "trials", "report", "1", evidence.TrialFile); after != before {
				t.Error("the trial was run again")
			}
			if n := len(e.Asked()); n != 8 {
				t.Errorf("%d requests, want 8", n)
			}
			if left := undigested(t, p); len(left) > 0 {
				t.Errorf("without a digest: %q", left)
			}
		})
	}
}

// TestAStrangersRunNamesNoJudge checks that keys are only sent to a judge on record if flags
// name its endpoint and key.
func TestAStrangersRunNamesNoJudge(t *testing.T) {
	const key = "canary-cloud-key-2c8d"
	for _, args := range [][]string{{"grade", "--judge"}, {"grade", "--judge-again"}, {"run", "--resume"}} {
		for _, c := range []struct {
			keyEnv, flags, lacks string
		}{
			{"CLOUD_KEY", "", "--judge-url URL --judge-key-env CLOUD_KEY"},
			{"CLOUD_KEY", "--judge-url URL", "--judge-key-env CLOUD_KEY"},
			{"CLOUD_KEY", "--judge-key-env CLOUD_KEY", "--judge-url URL"},
			{"CLOUD_KEY", "--judge-url URL --judge-key-env OTHER", "--judge-key-env CLOUD_KEY"},
			{"OPENAI_API_KEY", "--judge-url URL", "--judge-key-env OPENAI_API_KEY"},
			{"", "", "--judge-url URL"},
			{"", "--judge-url URL", ""},
			{"CLOUD_KEY", "--judge-url URL --judge-key-env CLOUD_KEY", ""},
		} {
			e := judgetest.Serve(t, judgetest.Saying(judgement))
			dir, trial := strangers(t, func(trial *runtest.Trial) {
				trial.Info.Judge = &evidence.Judge{BaseURL: e.URL, APIKeyEnv: c.keyEnv, Model: "m", TimeoutSeconds: 5}
				trial.Grade("polite", "prompt", `{"prompt": "Was it polite?"}`)
			})
			if args[0] == "run" { // what has no verdicts is asked for
				if err := os.Remove(filepath.Join(string(trial), evidence.VerdictsFile)); err != nil {
					t.Fatal(err)
				}
				edit(t, dir, runner.RunFile, func(run map[string]any) { delete(run, "files") })
			}
			with := strings.Fields(strings.ReplaceAll(c.flags, "URL", e.URL))
			s, _, stderr := testState(append(append(append([]string{}, args...), dir), with...)...)
			s.lookup = func(string) (string, bool) { return key, true }
			code := s.main(t.Context())
			if c.lacks == "" {
				if n := len(e.Asked()); n != 1 || code == exitUsage {
					t.Errorf("%s %s: %d questions, exit %d: %s", args, c.flags, n, code, stderr)
				}
				continue
			}
			want := "to allow that, give " + strings.ReplaceAll(c.lacks, "URL", e.URL) + "\n"
			if n := len(e.Asked()); n != 0 || code != exitUsage || !strings.HasSuffix(stderr.String(), want) {
				t.Errorf("%s %s: %d questions, exit %d, it says %q, want %q", args, c.flags, n, code, stderr, want)
			}
		}
	}
}

// The usual endpoint with its usual key needs nobody to name them; either with something
// else does.
func TestUsualJudge(t *testing.T) {
	for _, c := range []struct{ url, keyEnv, lacks string }{
		{"https://api.openai.com/v1", "OPENAI_API_KEY", ""},
		{"https://api.openai.com/v1", "CLOUD_KEY", "--judge-key-env CLOUD_KEY"},
		{"https://api.openai.com.example/v1", "OPENAI_API_KEY", "--judge-url https://api.openai.com.example/v1 --judge-key-env OPENAI_API_KEY"},
	} {
		if lacks := missingJudgeFlags(evidence.Judge{BaseURL: c.url, APIKeyEnv: c.keyEnv}, "", ""); lacks != c.lacks {
			t.Errorf("%s, %s: %q, want %q", c.url, c.keyEnv, lacks, c.lacks)
		}
	}
}

// Flags about asking a recorded judge are refused where none is asked.
func TestJudgesFlagsWithoutAQuestion(t *testing.T) {
	dir, _ := strangers(t, nil)
	for _, args := range [][]string{{"grade", dir}, {"run", "eval.yaml"}} {
		for _, flag := range []string{judgeURL, judgeKeyEnv} {
			s, _, stderr := testState(append(args, "--"+flag, "https://judge.example/v1")...)
			if code := s.main(t.Context()); code != exitUsage || !strings.Contains(stderr.String(), "--"+flag) {
				t.Errorf("%s: exit %d, it says %s", args, code, stderr)
			}
		}
	}
}
