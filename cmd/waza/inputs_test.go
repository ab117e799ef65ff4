package main

import (
	"strings"
	"testing"
)

// What inputs name beside files comes to the agent: a file of the prompt, instructions, the
// body of a skill, a fixture of the context, and a directory to start in.
func TestInputs(t *testing.T) {
	t.Parallel()
	p := newLocalProject(t, `
-- evals/eval.yaml --
name: NAME
skill: answers
config:
  trials_per_task: 1
  executor: command
  skill_directories: [skills]
  instruction_files: [rules.md]
  agent: {command: sh, prompt: argument, args: ["-c", "echo \"$1\"; pwd; find $WAZA_WORKSPACE -type f | sort; cat $WAZA_WORKSPACE/list.txt", "sh", "{{prompt}}"]}
tasks: [tasks/*.yaml]
-- evals/fixtures/rules.md --
Be brief.
-- evals/fixtures/list.txt --
apples
-- evals/fixtures/tree/list.txt --
plums
-- evals/fixtures/tree/sub/x.txt --
x
-- evals/other/rules.md --
Be long.
-- evals/other/more.md --
Be kind.
-- evals/other/list.txt --
pears
-- evals/skills/answers/SKILL.md --
---
name: answers
description: Gives the answer.
---
It is forty-two.
-- evals/tasks/prompt.md --
What is it?
-- evals/tasks/1.yaml --
id: file
inputs: {prompt_file: prompt.md, workdir: deep/er, context: {fixture: fixtures/list.txt}}
graders:
  - {type: text, name: all, config: {contains: ["Be brief.\n\nIt is forty-two.\n\nWhat is it?", "/deep/er\n", apples], not_contains: [plums]}}
-- evals/tasks/2.yaml --
id: directory
inputs: {prompt: x, context: {fixture: tree}}
graders:
  - {type: text, name: all, config: {contains: [plums, /sub/x.txt], not_contains: [tree]}}
-- evals/tasks/3.yaml --
id: other
context_dir: other
instruction_files: [more.md]
inputs: {prompt: x, files: [{path: list.txt}]}
graders:
  - {type: text, name: all, config: {contains: ["Be long.\n\nBe kind.\n\nIt is forty-two.\n\nx", pears]}}
`)
	p.start("run", "evals/eval.yaml", "--run-dir", "run").wait(exitOK)

	p.write("evals/tasks/1.yaml", `
id: bad
context_dir: ../..
instruction_files: [/etc/passwd]
inputs: {prompt: x, prompt_file: ../../secret, workdir: ../x, context: {fixture: ../../x}}
`)
	c := p.start("run", "evals/eval.yaml", "--dry-run")
	c.wait(exitUsage)
	for _, want := range []string{
		"context_dir must be a directory in the eval's",
		`instruction_files[0]: file "/etc/passwd" must be a relative path that does not lead out`,
		"inputs has a prompt and a prompt_file; give one of them",
		"inputs.workdir must be a directory in the workspace",
		"inputs.context.fixture must be a relative path",
	} {
		if !strings.Contains(c.stderr.String(), want) {
			t.Errorf("it does not say %q:\n%s", want, c.stderr.String())
		}
	}
}
