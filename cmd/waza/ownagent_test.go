package main

import (
	"os"
	"strings"
	"testing"

	"github.com/waza-isolate/waza/evidence"
)

// ownAgent is an agent that knows nothing of waza: a shell script that asks a model one
// thing. Its adapter brings the script, too.
const ownAgent = `
-- eval.yaml --
name: NAME
config:
  trials_per_task: 1
  executor: command
  model: stub/small
  models: {stub: {script: model.yaml}}
  agent: {adapter: agents/shell.yaml}
tasks: [hello.yaml, tired.yaml]
graders:
  - {type: text, name: said, config: {contains_cs: [hello from small]}}
-- hello.yaml --
id: hello
inputs: {prompt: Say hello.}
-- tired.yaml --
id: tired
inputs: {prompt: Give up.}
-- model.yaml --
conversations:
  - {when: {prompt_contains: hello, model: small}, turns: [{say: hello from small}]}
  - {turns: [{say: no more}]}
-- agents/shell.yaml --
title: A shell script
image: debian:bookworm-slim
command: [bash, "{{home}}/.agent/ask.sh", "{{model}}", "{{prompt_file}}"]
prompt: file
env:
  ASK_AT: "{{model_url}}/chat/completions"
  ASK_CONFIG: "{{home}}/.agent/servers.json"
files:
  .agent/servers.json: '{"servers": {{mcp_servers}}}'
  .agent/ask.sh: |
    set -eu
    rest=${ASK_AT#http://} host=${rest%%/*} port=80
    case $host in *:*) port=${host##*:};; esac
    body="{\"model\":\"$1\",\"messages\":[{\"role\":\"user\",\"content\":\"$(cat "$2")\"}]}"
    exec 3<>"/dev/tcp/${host%:*}/$port"
    printf 'POST /%s HTTP/1.1\r\nHost: %s\r\nContent-Type: application/json\r\nContent-Length: %d\r\nConnection: close\r\n\r\n%s' \
      "${rest#*/}" "$host" ${#body} "$body" >&3
    said=$(sed -n 's/.*"content":"\([^"]*\)".*/\1/p' <&3)
    echo "{\"told\":{\"text\":\"$said\"},\"config\":$(tr -d '\n' <"$ASK_CONFIG")}" >told.jsonl
    echo "$HOME"
    [ "$said" != "no more" ] || exit 7
mcp: gemini
models:
  - {kind: openai}
transcript:
  from: told.jsonl
  format: jsonl
  events: [{type: message, content: told.text}]
output: transcript
exit_codes: {"7": the agent gave up}
`

// Somebody's own agent needs a file and nothing else: it finds its prompt, its files, its
// servers' list and its model, and what it says and how it ends is understood.
func TestOwnAgentByAnAdapter(t *testing.T) {
	t.Parallel()
	for _, kind := range []string{"isolated", "local"} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			p, args := unpackProject(t, ownAgent), []string{"run", "eval.yaml", "--run-dir", "run"}
			if kind == "isolated" {
				p, args = newProject(t, ownAgent), append(args, "--isolate")
			}
			p.start(args...).wait(exitFailed)
			if r := p.runOf("hello"); r.Outcome != evidence.ClassPass {
				t.Errorf("%s: %s", r.Outcome, p.read("run", "trials", "hello", "1", "agent.stderr"))
			}
			if home := p.read("run", "trials", "hello", "1", "agent.stdout"); !strings.HasSuffix(home, "/home/agent\n") || home == os.Getenv("HOME")+"\n" {
				t.Errorf("its home is %s", home)
			}
			tired, err := p.trial("tired").Trial()
			if err != nil {
				t.Fatal(err)
			}
			if want := "the agent exited with code 7: the agent gave up"; !strings.Contains(tired.Message, want) || tired.FinalOutput != "no more" {
				t.Errorf("message %q, output %q", tired.Message, tired.FinalOutput)
			}
		})
	}
}

// What is wrong with an adapter is told with its place in its own file.
func TestAdapterThatIsWrong(t *testing.T) {
	t.Parallel()
	p := unpackProject(t, strings.Replace(ownAgent, "prompt: file", "promt: file", 1))
	c := p.start("run", "--isolate", "--dry-run", "eval.yaml").wait(exitUsage)
	if said := c.stderr.String(); !strings.Contains(said, `shell.yaml:4:1: unknown key "promt"; did you mean "prompt"?`) {
		t.Error(said)
	}
}

// Without containers the program is the machine's: where it is missing, it is said which
// agent that is and what to do.
func TestAgentThatIsNotInstalled(t *testing.T) {
	t.Parallel()
	eval := strings.Replace(ownAgent, "executor: command", "executor: claude", 1)
	p := unpackProject(t, strings.Replace(eval, "  agent: {adapter: agents/shell.yaml}\n", "", 1))
	p.env = append(p.env, "PATH=/nowhere")
	c := p.start("run", "eval.yaml").wait(exitInfra)
	if said := c.stderr.String(); !strings.Contains(said, "Claude Code is not installed here") || !strings.Contains(said, "--isolate") {
		t.Error(said)
	}
}
