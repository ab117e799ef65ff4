package main

import (
	"bytes"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/moby/moby/client"

	"github.com/waza-isolate/waza/evidence"
	"github.com/waza-isolate/waza/internal/dockertest"
	"github.com/waza-isolate/waza/model/stub"
)

// modelKey is a provider's key. The hostile agent below searches for its prefix.
const modelKey = "canary-begins-5c81e0d7a94b-ends"

// asking is a file for agents with a function that sends requests to WAZA_MODEL_URL.
const asking = `
-- fixtures/ask.sh --
ask() { # PATH BODY
  local rest=${WAZA_MODEL_URL#http://} line; local host=${rest%%/*} base=/${rest#*/}; local port=${host##*:}
  [ "$port" = "$host" ] && port=80
  exec 3<>/dev/tcp/${host%:*}/$port || return
  printf 'POST %s HTTP/1.1\r\nHost: %s\r\nAuthorization: Bearer waza\r\nContent-Length: %d\r\nConnection: close\r\n\r\n%s' "$base$1" "$host" ${#2} "$2" >&3
  cat <&3; echo
}
chat() { ask /chat/completions "{\"model\":\"$WAZA_MODEL\",\"messages\":[{\"role\":\"user\",\"content\":\"$1\"}]}"; }
`

func (p *project) modelCalls(task string) []evidence.ModelCall {
	p.t.Helper()
	var all []evidence.ModelCall
	for c, err := range p.trial(task).ModelCalls() {
		if err != nil {
			p.t.Fatal(err)
		}
		all = append(all, c)
	}
	return all
}

// A provider's key is in no container and nothing that a run leaves, though the provider
// throws it back and the agent looks everywhere.
func TestModelKeyIsInNoContainer(t *testing.T) {
	t.Parallel()
	for _, network := range []string{"bridge", "airtight"} {
		t.Run(network, func(t *testing.T) {
			t.Parallel()
			asked, inspected := make(chan string, 1), make(chan struct{})
			provider := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				asked <- r.Header.Get("Authorization")
				<-inspected
				w.Header().Set("X-Echo", r.Header.Get("Authorization"))
				fmt.Fprintf(w, "thrown back: %v", r.Header)
			}))
			t.Cleanup(provider.Close)
			p := newProject(t, strings.NewReplacer("NETWORK", network, "PROVIDER", provider.URL).Replace(`
-- eval.yaml --
name: NAME
config:
  trials_per_task: 1
  executor: command
  model: own/m
  isolation: {network: NETWORK, agent: {image: "debian:bookworm-slim"}}
  models:
    own: {base_url: "PROVIDER/v1", api_key_env: E2E_MODEL_KEY, headers: {X-Team: "${E2E_MODEL_KEY}"}}
  mcp_servers:
    one: {image: waza-examples/inventory}
  agent: {command: bash, args: [hostile.sh]}
tasks: [task.yaml]
-- task.yaml --
id: look
inputs: {prompt: x, files: [{path: ask.sh}, {path: hostile.sh}]}
-- fixtures/hostile.sh --
. ./ask.sh
chat hi
chat hi > answer
look() { # what a hostile agent can read
  cat /proc/*/environ /proc/*/cmdline /proc/*/mountinfo /proc/self/maps 2>/dev/null
  find /etc /home /workspace /tmp /run /var /opt /dev/shm /sys/class -type f -print0 2>/dev/null | xargs -0 cat 2>/dev/null
  env; set
}
echo "looked at $(look | wc -c) bytes, found $(look | grep -ac 'canary-begin[s]')"
`)+asking, inventory)
			p.env = append(p.env, "E2E_MODEL_KEY="+modelKey)
			c := p.start("run", "--isolate", "eval.yaml", "--run-dir", "run", "-v")
			if got := <-asked; got != "Bearer "+modelKey {
				t.Errorf("the provider is asked with %q", got)
			}
			p.inspectAll(modelKey)
			close(inspected)
			<-asked
			c.wait(exitOK)
			said := p.read("run", "trials", "look", "1", evidence.StdoutFile)
			if !strings.Contains(said, "found 0") || strings.Contains(said, "looked at 0") || !strings.Contains(said, strings.Repeat("*", len(modelKey))) {
				t.Errorf("the agent says %.3000s", said)
			}
			noFileHolds(t, p.path("run"), modelKey)
			printed := c.stdout.String() + c.stderr.String() + p.start("run", "--isolate", "--dry-run", "eval.yaml").wait(exitOK).stdout.String()
			if strings.Contains(printed, modelKey) || !strings.Contains(printed, "the key in $E2E_MODEL_KEY") {
				t.Errorf("printed: %s", printed)
			}
			if calls := p.modelCalls("look"); len(calls) != 2 || calls[0].Seq != 1 || calls[0].Redacted == 0 {
				t.Errorf("recorded %+v", calls)
			}
		})
	}
}

// inspectAll searches the engine's data on the run's containers for a secret.
func (p *project) inspectAll(secret string) {
	p.t.Helper()
	engine := dockertest.Engine(p.t)
	seen := 0
	for _, run := range dockertest.Runs(p.t, engine, p.name) {
		for _, c := range dockertest.Containers(p.t, engine, run) {
			seen++
			found, err := engine.ContainerInspect(p.t.Context(), c.ID, client.ContainerInspectOptions{})
			if err != nil || bytes.Contains(found.Raw, []byte(secret)) {
				p.t.Errorf("the engine has the key of %s: %v", c.Names, err)
			}
			top, err := engine.ContainerTop(p.t.Context(), c.ID, client.ContainerTopOptions{Arguments: []string{"-eo", "pid,args"}})
			if err != nil || strings.Contains(fmt.Sprint(top.Processes), secret) {
				p.t.Errorf("the processes of %s have the key: %v", c.Names, err)
			}
		}
	}
	if seen < 3 {
		p.t.Errorf("looked at %d containers", seen)
	}
}

const modelEval = `
-- eval.yaml --
name: NAME
config:
  trials_per_task: 1
  parallel: true
  executor: command
  model: stub/m
  isolation: {network: airtight, agent: {image: "debian:bookworm-slim"}}
  models:
    stub: {script: script.yaml}
  model_limits: {requests: 3}
  agent: {command: bash, args: [-c, '. ./ask.sh; eval "$0"', "{{prompt}}"]}
graders:
  - {type: text, name: said, config: {contains: [scripted answer]}}
tasks: ["t*.yaml"]
-- script.yaml --
turns: [{say: scripted answer}]
-- t1.yaml --
id: within
inputs: {prompt: chat hi, files: [{path: ask.sh}]}
-- t2.yaml --
id: beyond
inputs: {prompt: "for i in 1 2 3 4; do chat hi; done", files: [{path: ask.sh}]}
-- t3.yaml --
id: deaf
inputs: {prompt: "trap '' TERM; while true; do chat hi; done", files: [{path: ask.sh}]}
`

// Requests beyond a trial's limit are asked of nobody, with and without containers, and
// an agent that does not stop is stopped.
func TestModelBudget(t *testing.T) {
	t.Parallel()
	check := func(t *testing.T, p *project) {
		if run := p.runOf("within"); run.Outcome != evidence.ClassPass {
			t.Errorf("within: %s (%s)", run.Outcome, run.Message)
		}
		for _, task := range []string{"beyond", "deaf"} {
			run := p.runOf(task)
			if run.Outcome != evidence.ClassAgentError || run.Reason != evidence.ReasonBudget || !strings.Contains(run.Message, "more than 3 requests to models") {
				t.Errorf("%s: %s/%s: %s", task, run.Outcome, run.Reason, run.Message)
			}
			if !run.Validations["said"].Passed {
				t.Errorf("%s: graded %+v", task, run.Validations["said"])
			}
		}
		calls := p.modelCalls("beyond")
		var outcomes []string
		for _, c := range calls {
			outcomes = append(outcomes, c.Outcome)
		}
		if want := []string{"ok", "ok", "ok", "budget"}; !slices.Equal(outcomes, want) {
			t.Errorf("outcomes %q, want %q", outcomes, want)
		}
		if n := len(p.modelCalls("deaf")); n < 100 || n > 110 {
			t.Errorf("%d calls of the deaf agent are recorded", n)
		}
		if models := p.record().Models; models == nil || models.Provider != "stub" || models.Limits.Requests != 3 {
			t.Errorf("run.json says %+v", models)
		}
		if _, ok := p.record().Inputs["script.yaml"]; !ok {
			t.Errorf("the script is none of the inputs %v", p.record().Inputs)
		}
	}
	t.Run("isolated", func(t *testing.T) {
		t.Parallel()
		p := newProject(t, modelEval+asking)
		p.run(exitFailed)
		check(t, p)
	})
	t.Run("on this machine", func(t *testing.T) {
		t.Parallel()
		p := unpackProject(t, modelEval+asking)
		p.start("run", "eval.yaml", "--run-dir", "run").wait(exitFailed)
		check(t, p)
	})
}

const ownProvider = `
-- eval.yaml --
name: NAME
config:
  trials_per_task: 1
  executor: command
  models:
    own: {base_url: "PROVIDER/v1", api_key_env: E2E_MODEL_KEY}
  agent: {command: bash, args: [-c, '. ./ask.sh; eval "$0"', "{{prompt}}"]}
graders:
  - {type: text, name: said, config: {contains: [an answer]}}
tasks: ["t*.yaml"]
-- t1.yaml --
id: refused
inputs: {prompt: 'chat hi; echo "key: $E2E_MODEL_KEY."', files: [{path: ask.sh}]}
`

// A key that a provider refuses is told of with the variable to set, in the trial and on
// the terminal. The agent has no such variable, although it is a process of the user's.
func TestModelKeyRefused(t *testing.T) {
	t.Parallel()
	provider := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		http.Error(w, `{"error":{"message":"no such key"}}`, http.StatusUnauthorized)
	}))
	t.Cleanup(provider.Close)
	p := unpackProject(t, strings.ReplaceAll(ownProvider, "PROVIDER", provider.URL)+asking)
	p.env = append(p.env, "E2E_MODEL_KEY="+modelKey)
	c := p.start("run", "eval.yaml", "--run-dir", "run", "--infra-retries", "0").wait(exitInfra)
	want := `the model provider "own" answered 401 to its key; set the environment variable E2E_MODEL_KEY to one that is valid there`
	if run := p.runOf("refused"); run.Outcome != evidence.ClassInfra || run.Reason != evidence.ReasonModel || run.Message != want || !strings.Contains(c.stdout.String(), want) {
		t.Errorf("%s (%s): %s\n%s", run.Outcome, run.Reason, run.Message, c.stdout.String())
	}
	said := p.read("run", "trials", "refused", "1", evidence.StdoutFile)
	if !strings.Contains(said, "no such key") || !strings.Contains(said, "key: .") {
		t.Errorf("the agent says %s", said)
	}
}

// An agent whose requests fail is not excused where the provider answers waza's own: it may
// have provoked the errors.
func TestModelErrorsOfTheAgents(t *testing.T) {
	t.Parallel()
	provider := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/v1/models" {
			http.Error(w, `{"error":{"message":"overloaded"}}`, http.StatusServiceUnavailable)
		}
	}))
	t.Cleanup(provider.Close)
	p := unpackProject(t, strings.ReplaceAll(ownProvider, "PROVIDER", provider.URL)+asking)
	p.env = append(p.env, "E2E_MODEL_KEY="+modelKey)
	p.start("run", "eval.yaml", "--run-dir", "run").wait(exitFailed)
	if run := p.runOf("refused"); run.Outcome != evidence.ClassFail {
		t.Errorf("%s (%s): %s", run.Outcome, run.Reason, run.Message)
	}
}

// An agent that fails since the provider broke off its answer is not blamed, but run again.
func TestModelBreaksOff(t *testing.T) {
	t.Parallel()
	script, err := stub.Parse("model.yaml", []byte("turns: [{cut: half}, {say: all}]"))
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(script.Handler()) // which tells the second request from the first
	t.Cleanup(server.Close)
	asks := strings.NewReplacer("PROVIDER", server.URL, `", api_key_env: E2E_MODEL_KEY`, `"`,
		"an answer", "all", `echo "key: $E2E_MODEL_KEY."`, "true").Replace(ownProvider) + asking
	p := unpackProject(t, asks)
	p.start("run", "eval.yaml", "--run-dir", "run").wait(exitOK)
	run := p.runOf("refused")
	if run.Outcome != evidence.ClassPass || len(run.Earlier) != 1 || run.Earlier[0].Reason != evidence.ReasonModel ||
		!strings.Contains(run.Earlier[0].Message, `model provider "own" broke off its last answer to the agent`) {
		t.Errorf("%+v", run)
	}
}

// TestModelWithoutKey checks that nothing is started if a model's key is missing.
func TestModelWithoutKey(t *testing.T) {
	t.Parallel()
	p := unpackProject(t, strings.ReplaceAll(ownProvider, "PROVIDER", "http://127.0.0.1:9")+asking)
	p.env = append(p.env, "E2E_MODEL_KEY=")
	c := p.start("run", "eval.yaml", "--run-dir", "run").wait(exitUsage)
	if want := "eval.yaml:6:5: config.models.own: the environment variable E2E_MODEL_KEY is not set; set it to the key of the model provider \"own\"\n"; !strings.HasPrefix(c.stderr.String(), want) {
		t.Errorf("stderr: %s", c.stderr.String())
	}
	if p.exists("run") {
		t.Error("a run was begun")
	}
}
