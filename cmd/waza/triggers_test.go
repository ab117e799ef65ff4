package main

import (
	"strings"
	"testing"
)

// Prompts of trigger_tests.yaml are asked once, whatever the eval says of trials and
// attempts, and are told by their metric; should_trigger of a task is judged where the
// agent tells which skills it invokes.
func TestTriggers(t *testing.T) {
	t.Parallel()
	p := newLocalProject(t, `
-- eval.yaml --
name: NAME
skill: stock
config:
  trials_per_task: 2
  max_attempts: 3
  fail_fast: true
  executor: command
  skill_directories: [skills]
  inject_skill_body: false
  agent:
    command: sh
    prompt: argument
    args: ["-c", "echo ran >>$ASKED; case $1 in *hinges*) printf '{\"t\":\"use\",\"id\":\"1\",\"name\":\"skill\",\"arguments\":{\"skill\":\"stock\"}}\n{\"t\":\"end\",\"id\":\"1\"}\n';; *) echo '{\"t\":\"said\",\"text\":\"no\"}';; esac", "sh", "{{prompt}}"]
    transcript:
      from: stdout
      format: jsonl
      events:
        - {when: {t: use}, type: tool_start, id: id, name: name, arguments: arguments}
        - {when: {t: end}, type: tool_end, id: id}
        - {when: {t: said}, type: message, content: text}
metrics: [{name: trigger_accuracy, threshold: 0.5, weight: 1}]
tasks: [tasks/*.yaml]
-- trigger_tests.yaml --
skill: stock
should_trigger_prompts: [{prompt: How many hinges?}, {prompt: How many screws?}]
should_not_trigger_prompts: [{prompt: A poem.}]
-- tasks/1.yaml --
{id: invoked, inputs: {prompt: hinges}, expected: {should_trigger: true}}
-- tasks/2.yaml --
{id: uncalled, inputs: {prompt: screws}, expected: {should_trigger: false}}
-- skills/stock/SKILL.md --
---
name: stock
description: Counts hinges.
---
Count them.
`)
	p.env = append(p.env, "ASKED="+p.path("asked"))
	c := p.startLocal().wait(exitOK)
	if n := strings.Count(p.read("asked"), "ran"); n != 2*2+3 {
		t.Errorf("the agent was asked %d times", n)
	}
	said := c.stdout.String()
	if want := "trigger_accuracy 0.667: 2 of 3 prompts of trigger_tests.yaml were right; not trigger_tests-should-2\n"; !strings.Contains(said, want) || strings.Contains(said, "waza show run trigger_tests") {
		t.Errorf("it does not say %q, or tells of the prompt as of a failure:\n%s", want, said)
	}
	got := p.results()
	for _, task := range got.Tasks {
		runs := 2
		if task.Trigger != nil {
			runs = 1
		}
		if _, judged := task.Runs[0].Validations["expected:should_trigger"]; len(task.Runs) != runs || judged != (task.Trigger == nil) {
			t.Errorf("%s has %d runs, by %v", task.TestID, len(task.Runs), task.Runs[0].Validations)
		}
	}

	p.write("tasks/1.yaml", strings.Replace(p.read("tasks/1.yaml"), "true", "false", 1))
	p.start("run", "eval.yaml", "--run-dir", "wrong", "--task", "invoked", "--trials", "1").wait(exitFailed)
	p.start("run", "eval.yaml", "--run-dir", "mock", "--task", "invoked", "--executor", "mock").wait(exitOK)
}
