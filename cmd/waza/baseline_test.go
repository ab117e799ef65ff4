package main

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/waza-isolate/waza/results"
)

// TestBaseline checks that a baseline runs every trial with and without skills, and that the
// results compare them.
func TestBaseline(t *testing.T) {
	t.Parallel()
	p := newLocalProject(t, `
-- eval.yaml --
name: NAME
config:
  trials_per_task: 2
  executor: command
  skill_directories: [skills]
  agent: {command: sh, prompt: argument, args: ["-c", "cat .waza/skills/*/SKILL.md; echo $1", "sh", "{{prompt}}"]}
tasks: [tasks/*.yaml]
graders: [{type: text, name: knows, config: {contains: [forty-two]}}]
-- tasks/1.yaml --
{id: easy, inputs: {prompt: forty-two}}
-- tasks/2.yaml --
{id: hard, inputs: {prompt: what?}}
-- skills/answers/SKILL.md --
---
name: answers
description: Gives the answer.
---
It is forty-two.
`)
	c := p.startLocal("--baseline", "--output", "out.json")
	c.wait(exitOK)
	for _, want := range []string{"skills: tasks pass at 100% with skills, at 50% without (+50 points)", "  hard: 100% with, 0% without (+100 points)"} {
		if !strings.Contains(c.stdout.String(), want) {
			t.Errorf("it does not say %q:\n%s", want, c.stdout.String())
		}
	}
	got := p.results()
	var base results.Results
	if err := json.Unmarshal(got.Baseline, &base); err != nil {
		t.Fatal(err)
	}
	if !base.IsBaseline || got.IsBaseline || base.EvalID == got.EvalID || base.Tasks[1].Runs[0].Status != "failed" {
		t.Fatalf("the baseline is %+v", base)
	}
	if i := got.Tasks[1].SkillImpact; i == nil || i.WithSkills != 1 || i.Baseline != 0 || i.Delta != 1 || i.PercentChange != 100 {
		t.Errorf("skills change %+v", i)
	}
	if p.read("run", "results.json") != p.read("out.json") || !p.exists("run-baseline", "results.json") {
		t.Error("--output is not the run with skills")
	}
	// Grading again finds the same, without the other run.
	before := p.read("run", "results.json")
	p.start("grade", "run").wait(exitOK)
	if p.read("run", "results.json") != before {
		t.Error("grading again gives other results")
	}

	// What a rerun keeps, it keeps with its baseline.
	again := p.start("rerun", "run", "--task", "hard", "--run-dir", "again").wait(exitOK).stdout.String()
	if want := "skills: tasks pass at 100% with skills, at 50% without (+50 points)"; !strings.Contains(again, want) {
		t.Errorf("run again, it does not say %q:\n%s", want, again)
	}

	// Skills that change nothing are not worth it, and --no-skills leaves them out.
	p.start("run", "eval.yaml", "--run-dir", "same", "--baseline", "--task", "easy").wait(exitFailed)
	p.start("run", "eval.yaml", "--run-dir", "without", "--no-skills").wait(exitFailed)
	if !strings.Contains(p.read("without", "results.json"), `"no_skills": true`) {
		t.Error("results do not say that skills were left out")
	}
	both := p.start("run", "eval.yaml", "--run-dir", "none", "--baseline", "--no-skills").wait(exitUsage)
	if want := "--baseline runs with and without skills and --no-skills without them"; !strings.Contains(both.stderr.String(), want) {
		t.Errorf("with both flags it says %q", both.stderr.String())
	}

	// Each of several models has a baseline of its own.
	p.start("run", "eval.yaml", "--run-dir", "several", "--baseline", "--model", "a,b").wait(exitOK)
	for _, model := range []string{"1-a", "2-b"} {
		var with results.Results
		if err := json.Unmarshal([]byte(p.read("several", model, "results.json")), &with); err != nil {
			t.Fatal(err)
		}
		if i := with.Tasks[1].SkillImpact; i == nil || i.Delta != 1 || !p.exists("several", model+"-baseline", "results.json") {
			t.Errorf("model %s: skills change %+v", model, i)
		}
	}
}
