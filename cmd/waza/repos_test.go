package main

import (
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

const reposTask = `
-- task.yaml --
id: x
inputs:
  prompt: x
  workdir: my-repo
  repos: [{type: worktree, source: source, commit: main, dest: my-repo}]
graders:
  - {type: file, name: there, config: {content_patterns: [{path: my-repo/dir/file, must_match: ["^second$"]}], must_exist: [my-repo/.git/HEAD]}}
`

// makeRepo makes the repository source in the project, with two commits on main.
func (p *project) makeRepo() (commit string) {
	p.t.Helper()
	git := func(args ...string) string {
		cmd := exec.Command("git", append([]string{"-C", p.path("source"), "-c", "user.name=x", "-c", "user.email=x@example.com"}, args...)...)
		out, err := cmd.CombinedOutput()
		if err != nil {
			p.t.Fatalf("git %q: %v\n%s", args, err, out)
		}
		return strings.TrimSpace(string(out))
	}
	p.write("source/dir/file", "first")
	git("init", "--quiet", "--initial-branch=main", ".")
	for _, content := range []string{"first", "second"} {
		p.write("source/dir/file", content)
		git("add", "-A")
		git("commit", "--quiet", "-m", content)
	}
	return git("rev-parse", "HEAD")
}

// A task's repository is in its workspace with its history, as a repository of its own.
func TestRepos(t *testing.T) {
	t.Parallel()
	p := newLocalProject(t, `
-- eval.yaml --
name: NAME
config:
  trials_per_task: 2
  executor: command
  agent: {command: sh, args: ["-c", "git log --format=%s; git -c user.name=x -c user.email=x commit --quiet --allow-empty -m third && git branch mine"]}
graders: [{type: text, name: history, config: {contains: ["second\nfirst"], not_contains: [third]}}]
tasks: [task.yaml]
`+reposTask)
	commit := p.makeRepo()
	p.startLocal().wait(exitOK)
	if reported := p.read("run", "trials", "x", "1", "trial.json"); !strings.Contains(reported, `"sha": "`+commit+`"`) && !strings.Contains(reported, `"sha":"`+commit+`"`) {
		t.Errorf("its commit %s is not on record:\n%s", commit, reported)
	}
	if out, err := exec.Command("git", "-C", p.path("source"), "branch", "--list", "mine").Output(); err != nil || len(out) > 0 {
		t.Errorf("the agent's branch is in the source: %s, %v", out, err)
	}
	plan := p.start("run", "eval.yaml", "--dry-run").wait(exitOK)
	if want := "repository  " + p.path("source") + " at main, as my-repo"; !strings.Contains(plan.stdout.String(), want) {
		t.Errorf("the plan does not say %q:\n%s", want, plan.stdout.String())
	}

	for _, test := range []struct{ old, new, want string }{
		{"commit: main", "commit: other", "couldn't find remote ref other"},
		{"source: source", "source: tmp", "does not appear to be a git repository"},
	} {
		was := p.read("task.yaml")
		p.write("task.yaml", strings.Replace(was, test.old, test.new, 1))
		if said := p.start("run", "eval.yaml", "--run-dir", "refused").wait(exitUsage).stderr.String(); !strings.Contains(said, test.want) {
			t.Errorf("%s: it does not say %q:\n%s", test.new, test.want, said)
		}
		p.write("task.yaml", was)
	}
	p.env = append(p.env, "PATH="+filepath.Dir(p.path("eval.yaml")))
	if said := p.start("run", "eval.yaml", "--executor", "mock", "--run-dir", "gitless").wait(exitUsage).stderr.String(); !strings.Contains(said, "needs the git command") {
		t.Errorf("without git it says\n%s", said)
	}
}

func TestReposIsolated(t *testing.T) {
	t.Parallel()
	p := newProject(t, `
-- eval.yaml --
name: NAME
config: {trials_per_task: 1, isolation: {network: airtight}, executor: mock}
tasks: [task.yaml]
`+reposTask)
	p.makeRepo()
	p.startRun().wait(exitOK)
}
