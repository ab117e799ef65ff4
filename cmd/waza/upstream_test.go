package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

const upstreamProject = `
-- .waza.yaml --
paths: {evals: evals}
defaults: {engine: mock, timeout: 60}
tokens: {warningThreshold: 500}
-- evals/stock/eval.yaml --
name: stock-eval
skill: stock
config: {trials_per_task: 1}
graders: [{type: text, config: {contains: [hello]}}]
tasks: [tasks/*.yaml]
-- evals/stock/tasks/one.yaml --
id: one
inputs: {prompt: hello}
-- evals/stock/tasks/two.yaml --
id: two
inputs: {prompt: good bye}
-- skills/stock/SKILL.md --
---
name: stock
description: Counts.
---
-- skills/price/SKILL.md --
---
name: price
description: Prices.
---
-- skills/price/evals/eval.yaml --
name: price-eval
skill: price
config: {trials_per_task: 1}
tasks: [task.yaml]
-- skills/price/evals/task.yaml --
id: three
inputs: {prompt: how much}
`

// TestUpstreamCommandLines runs what repositories have in their workflows.
func TestUpstreamCommandLines(t *testing.T) {
	t.Parallel()
	p := newLocalProject(t, upstreamProject)
	if err := os.MkdirAll(filepath.Join(p.dir, "sub"), 0o755); err != nil {
		t.Fatal(err)
	}
	p.start("run", "stock", "--output-dir", "results", "--parallel", "--workers", "2", "--timeout", "300", "--no-cache", "--no-update-check",
		"--reporter", "json", "--reporter", "junit:out/j.xml", "--transcript-dir", "transcripts", "--session-log", "--session-dir", "sessions", "--debug", "-t", "*").wait(exitFailed)
	for _, pattern := range []string{"results/stock/mock.json", "out/j.xml", "transcripts/one-1-*.json", "transcripts/two-1-*.json", "sessions/*-session.jsonl"} {
		if found, err := filepath.Glob(filepath.Join(p.dir, pattern)); err != nil || len(found) != 1 {
			t.Errorf("%s: %v, %v", pattern, found, err)
		}
	}
	if c := p.start("run", "skills/price", "--suggest", "--recommend", "--interpret", "--cache", "-m", "x", "-f", "json").wait(exitOK); strings.Count(c.stderr.String(), "has no effect") != 4 {
		t.Errorf("said %s", c.stderr.String())
	}
	if c := p.start("run", "--skip-graders", "evals/stock", "-w", "1").wait(exitOK); strings.Contains(c.stdout.String(), "text-1") {
		t.Errorf("graded: %s", c.stdout.String())
	}
	// Without a name, all of the project; --discover finds the same.
	for _, args := range [][]string{{"run", "-o", "all.json"}, {"run", "--discover", "--strict", "-o", "all.json", "--format", "github-comment"}} {
		if c := p.start(args...).wait(exitFailed); !strings.Contains(c.stderr.String(), "eval 2 of 2: skills/price/evals/eval.yaml") {
			t.Errorf("%q said %s", args, c.stderr.String())
		}
		for _, name := range []string{"all_evals-stock-eval.json", "all_skills-price-evals-eval.json"} {
			if err := os.Remove(filepath.Join(p.dir, name)); err != nil {
				t.Error(err)
			}
		}
	}
	for _, refused := range []struct{ args, says string }{
		{"run nothing", "skill with an eval: there is no evals/nothing/eval.yaml"},
		{"run sub", "directory sub has no eval"},
		{"run ../..", "has no eval"},
		{"run stock price", "takes one eval"},
		{"run --strict stock", "--strict is for --discover"},
		{"run stock -o x.json -d y", "give one of them"},
		{"run stock --reporter xml:f", "must be json"},
		{"run stock --otel-exporter stdout", "must be otlp or file"},
		{"run stock --otel-exporter file", "needs --otel-file"},
		{"run stock --otel-endpoint localhost:1", "--otel-endpoint needs --otel-exporter otlp"},
		{"run stock --otel-exporter otlp --otel-endpoint ftp://x", "must be a URL"},
		{"run stock --otel-exporter otlp --otel-headers x", "must be KEY=VALUE"},
		{"run stock --timeout 5x", "whole seconds"},
		{"run --run-dir r", "for one eval"},
	} {
		want := exitUsage
		if refused.says == "" {
			want = exitFailed
		}
		if c := p.start(strings.Fields(refused.args)...).wait(want); !strings.Contains(c.stderr.String(), refused.says) {
			t.Errorf("%s said %s", refused.args, c.stderr.String())
		}
	}
}
