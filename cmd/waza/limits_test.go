package main

import (
	"fmt"
	"strings"
	"testing"

	"github.com/waza-isolate/waza/evidence"
)

// What an agent runs into is its own, whatever code it exits with, and what is left
// of it is graded.
func TestFaults_AgentsLimits(t *testing.T) {
	t.Parallel()
	tests := []struct {
		how    string
		script string
		class  evidence.Class
		reason evidence.Reason
		says   string
	}{
		{"behaves", `true`, evidence.ClassPass, "", ""},
		{"eats", `exec tail /dev/zero`, evidence.ClassAgentError, evidence.ReasonOOM, "ran out of memory"},
		{"child-eats", `tail /dev/zero; exit 0`, evidence.ClassAgentError, evidence.ReasonOOM, "ran out of memory"},
		{"forks", `for i in $(seq 100); do sleep 60 & done`, evidence.ClassAgentError, evidence.ReasonPids, "ran out of processes"},
		{"fills-workspace", `head -c 64m /dev/zero > big; exit 0`, evidence.ClassAgentError, evidence.ReasonDisk, "filled /workspace"},
		{"fills-tmp", `head -c 64m /dev/zero > /tmp/big; exit 0`, evidence.ClassAgentError, evidence.ReasonDisk, "filled /tmp"},
		{"fills-shm", `head -c 64m /dev/zero > /dev/shm/big; exit 0`, evidence.ClassAgentError, evidence.ReasonDisk, "filled /dev/shm, which holds 4194304 bytes"},
		{"fills-home", `head -c 64m /dev/zero > "$HOME/big"; exit 3`, evidence.ClassAgentError, evidence.ReasonDisk, "filled /home/agent"},
		{"writes", `exec yes`, evidence.ClassAgentError, evidence.ReasonOutput, "more than 1048576 bytes to stdout"},
		{"complains", `yes >&2; exit 0`, evidence.ClassAgentError, evidence.ReasonOutput, "more than 1048576 bytes to stderr"},
		{"opens", `perl -e 'my @f; while (open(my $h, "<", "/dev/null")) { push @f, $h } print scalar(@f), " $!"'`, evidence.ClassPass, "", ""},
	}
	var tasks strings.Builder
	for i, test := range tests {
		fmt.Fprintf(&tasks, "\n-- tasks/%02d.yaml --\nid: %s\ninputs:\n  prompt: |-\n    echo so far > kept; %s\n", i, test.how, test.script)
	}
	p := newProject(t, `
-- eval.yaml --
name: NAME
config:
  trials_per_task: 1
  parallel: true
  workers: 3
  executor: command
  isolation:
    agent:
      image: debian:bookworm-slim
      memory: 96m
      pids: 32
      disk: 16m
      scratch: 8m
      shm_size: 4m
      open_files: 100
      max_output: 1m
  agent: {command: sh, args: [-c, "{{prompt}}"]}
graders:
  - {type: file, name: left, config: {content_patterns: [{path: kept, must_match: ["so far"]}]}}
tasks: [tasks/*.yaml]
`+tasks.String())
	p.run(exitFailed)
	all := p.results()
	for _, test := range tests {
		t.Run(test.how, func(t *testing.T) {
			run := firstRun(t, all, test.how)
			if run.Outcome != test.class || run.Reason != test.reason || !strings.Contains(run.Message, test.says) {
				t.Errorf("%s/%s (%s), want %s/%s: …%s…", run.Outcome, run.Reason, run.Message, test.class, test.reason, test.says)
			}
			if left := run.Validations["left"]; !left.Passed {
				t.Errorf("what it left was graded %+v", left)
			}
			trial, err := p.trial(test.how).Trial()
			if err != nil {
				t.Fatal(err)
			}
			agent := trial.Resources["agent"]
			plausible(t, agent)
			if l := agent.Limits; l.Disk != 16<<20 || l.Scratch != 8<<20 || l.ShmSize != 4<<20 || l.OpenFiles != 100 || l.MaxOutput != 1<<20 || l.Seconds != 300 || l.MaxCalls == 0 {
				t.Errorf("limits %+v", l)
			}
			switch used := agent.Used; test.how {
			case "eats", "child-eats":
				if used.Memory.Peak < 80<<20 {
					t.Errorf("memory %+v", used.Memory)
				}
			case "forks":
				if used.Pids.Peak != 32 {
					t.Errorf("processes %+v", used.Pids)
				}
			case "fills-workspace":
				if d := used.Disks["/workspace"]; d.Peak != 16<<20 || d.Size != 16<<20 {
					t.Errorf("disk %+v", d)
				}
			case "fills-tmp":
				if d := used.Disks["/tmp"]; d.Peak != 8<<20 || d.Size != 8<<20 {
					t.Errorf("disk %+v", d)
				}
			case "writes", "complains":
				stream := map[string]string{"writes": "agent.stdout", "complains": "agent.stderr"}[test.how]
				if n := len(p.read("run", "trials", test.how, "1", stream)); n != 1<<20 {
					t.Errorf("%d bytes of %s are kept", n, stream)
				}
			case "opens":
				var n int
				var why string
				_, _ = fmt.Sscanf(trial.FinalOutput, "%d %s", &n, &why)
				if n < 90 || n > 100 || !strings.Contains(trial.FinalOutput, "Too many open files") {
					t.Errorf("it opened: %s", trial.FinalOutput)
				}
			}
		})
	}
}

// overshoot is how much the kernel may let a container exceed its limit temporarily.
const overshoot = 1 << 20

// plausible checks that a container used something, and did not exceed its limits.
func plausible(t *testing.T, r evidence.Resource) {
	t.Helper()
	used := r.Used
	if used == nil || used.Memory == nil || used.Pids == nil || used.CPU == nil || used.OOMKills == nil || used.ForksRefused == nil {
		t.Fatalf("what was used is not known: %+v %s", used, r.Unseen)
	}
	if m := used.Memory; m.Peak < 1<<20 || m.Peak > r.Limits.Memory+overshoot {
		t.Errorf("memory %+v of %d", *m, r.Limits.Memory)
	}
	if p := used.Pids; p.Peak < 1 || p.Peak > r.Limits.Pids {
		t.Errorf("processes %+v of %d", *p, r.Limits.Pids)
	}
	if *used.CPU <= 0 {
		t.Errorf("%v seconds of CPU", *used.CPU)
	}
	if len(used.Disks) == 0 {
		t.Error("no disk")
	}
}

// What a server runs into is its own: graders decide, and events and resources say
// what happened.
func TestFaults_ServersLimits(t *testing.T) {
	t.Parallel()
	tests := []struct {
		how    string
		config string
		class  evidence.Class // empty: whatever graders say
		event  string
		says   string
	}{
		{"eat", "", evidence.ClassFail, "oom", "ran out of memory"},
		{"fork", "", "", "pids", "ran out of processes"},
		{"fill", "", evidence.ClassPass, "disk", "filled /tmp"},
		{"open", "", evidence.ClassPass, "", ""},
		{"talk", ", max_frames: 50", evidence.ClassFail, "limit", "exceeded its limit on messages"},
		{"large", ", max_traffic: 10m, memory: 512m", evidence.ClassFail, "limit", "bytes of messages"},
	}
	var tasks strings.Builder
	for i, test := range tests {
		fmt.Fprintf(&tasks, `
-- tasks/%02d.yaml --
id: %s
inputs: {prompt: x}
mcp_servers: {it: {args: [%[2]s]%s}}
script:
  - call: {server: it, tool: poke, expect: any}
    as: answer
  - say: "over {{ answer.text }}"
`, i, test.how, test.config)
	}
	p := newProject(t, `
-- eval.yaml --
name: NAME
config:
  trials_per_task: 1
  parallel: true
  workers: 3
  executor: script
  mcp_servers:
    it:
      image: debian:bookworm-slim
      command: /srv/hostile
      files: {/srv/hostile: hostile}
      memory: 128m
      pids: 48
      scratch: 8m
      disk: 16m
      open_files: 128
graders:
  - {type: mcp_compliance, name: fine, config: {server: it, expect_tools_used: [poke], max_tool_errors: 0}}
tasks: [tasks/*.yaml]
`+tasks.String())
	p.compile("hostile", "./testdata/hostile")
	p.run(exitFailed)
	all := p.results()
	for _, test := range tests {
		t.Run(test.how, func(t *testing.T) {
			run := firstRun(t, all, test.how)
			if run.Outcome != test.class && (test.class != "" || run.Outcome != evidence.ClassPass && run.Outcome != evidence.ClassFail) {
				t.Errorf("%s (%s), want %s", run.Outcome, run.Message, test.class)
			}
			trial, err := p.trial(test.how).Trial()
			if err != nil {
				t.Fatal(err)
			}
			server := trial.Resources["it"]
			plausible(t, server)
			if l := server.Limits; l.OpenFiles != 128 || l.Scratch != 8<<20 || l.MaxFrames == 0 || l.MaxTraffic == 0 || l.MaxMessage == 0 {
				t.Errorf("limits %+v", l)
			}
			if breaches := trial.Resources["agent"].Used.Breaches(); len(breaches) > 0 {
				t.Errorf("the agent ran into %+v", breaches)
			}
			if test.how == "open" && (!strings.Contains(trial.FinalOutput, "files: true") || strings.Contains(trial.FinalOutput, "over 1 ")) {
				t.Errorf("it says %q", trial.FinalOutput)
			}
			events, err := p.trial(test.how).Events()
			if err != nil {
				t.Fatal(err)
			}
			found := test.event == ""
			for _, e := range events {
				found = found || e.Kind == test.event && e.Where == "it" && strings.Contains(e.Message, test.says)
			}
			if !found {
				t.Errorf("no event %s of the server that says %q in %.2000v", test.event, test.says, events)
			}
		})
	}
}

// Calls beyond the budget reach no server, with and without containers.
func TestCallBudget(t *testing.T) {
	t.Parallel()
	const archive = `
-- eval.yaml --
name: NAME
config:
  trials_per_task: 1
  executor: script
  isolation: {network: airtight, agent: {max_calls: 3}}
  mcp_servers:
    it: {image: "debian:bookworm-slim", command: COMMAND, args: [behave]FILES}
graders:
  - {type: text, name: counted, config: {contains: ["three poked"]}}
tasks: [task.yaml]
-- task.yaml --
id: many
inputs: {prompt: x}
script:
  - call: {server: it, tool: poke}
  - call: {server: it, tool: poke}
  - call: {server: it, tool: poke}
    as: third
  - call: {server: it, tool: poke, expect: protocol_error}
    as: fourth
  - say: "three {{ third.text }}, then {{ fourth.text }}"
`
	check := func(t *testing.T, p *project) {
		run := p.runOf("many")
		if run.Outcome != evidence.ClassAgentError || run.Reason != evidence.ReasonBudget || !strings.Contains(run.Message, "more than 3 calls") {
			t.Errorf("%s/%s: %s", run.Outcome, run.Reason, run.Message)
		}
		if !run.Validations["counted"].Passed {
			t.Errorf("graded %+v", run.Validations["counted"])
		}
		calls, err := p.trial("many").Calls()
		if err != nil || len(calls) != 4 || calls[2].Outcome != evidence.OutcomeOK || calls[3].Outcome != evidence.OutcomeProtocolError || !strings.Contains(string(calls[3].Error), `"waza":"budget"`) {
			t.Errorf("calls %.1000v, %v", calls, err)
		}
	}
	t.Run("isolated", func(t *testing.T) {
		t.Parallel()
		p := newProject(t, strings.NewReplacer("COMMAND", "/srv/hostile", "FILES", ", files: {/srv/hostile: hostile}").Replace(archive))
		p.compile("hostile", "./testdata/hostile")
		p.run(exitFailed)
		check(t, p)
	})
	t.Run("on this machine", func(t *testing.T) {
		t.Parallel()
		p := unpackProject(t, strings.NewReplacer("COMMAND", "./hostile", "FILES", "").Replace(archive))
		p.compile("hostile", "./testdata/hostile")
		p.start("run", "eval.yaml", "--run-dir", "run").wait(exitFailed)
		check(t, p)
	})
}
