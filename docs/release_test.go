package docs_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"go.yaml.in/yaml/v4"

	"github.com/waza-isolate/waza/internal/dockertest"
	"github.com/waza-isolate/waza/internal/files"
)

// TestChanges finds what CHANGELOG.md says of the release that the docs install.
func TestChanges(t *testing.T) {
	t.Parallel()
	script := filepath.Join(root, "scripts", "changes")
	if out, err := exec.CommandContext(t.Context(), script, "v0.1.0").CombinedOutput(); err != nil || !strings.Contains(string(out), "### Added") {
		t.Errorf("%v\n%s", err, out)
	}
	if out, err := exec.CommandContext(t.Context(), script, "v99.0.0").CombinedOutput(); err == nil || !strings.Contains(string(out), "## [99.0.0]") {
		t.Errorf("%v\n%s", err, out)
	}
}

// TestActions checks that every action is named by commit, with its release, here and in what is shown
// and written for others; and that no checkout leaves its token behind.
func TestActions(t *testing.T) {
	t.Parallel()
	uses := regexp.MustCompile(`(?m)uses: *(\S+)(.*)`)
	pinned := regexp.MustCompile(`^[\w./-]+@[0-9a-f]{40}$`)
	found := 0
	for _, pattern := range []string{".github/workflows/*.yml", "cmd/waza/scaffold/templates/*.yml", "setup-waza/*.yml", "action.yml", "docs/*.md", "docs/howto/*.md", "README.md"} {
		names, err := filepath.Glob(filepath.Join(root, pattern))
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range names {
			data, err := os.ReadFile(name)
			if err != nil {
				t.Fatal(err)
			}
			for _, use := range uses.FindAllStringSubmatch(string(data), -1) {
				if !strings.Contains(use[1], "/") || strings.HasPrefix(use[1], "waza-isolate/waza/setup-waza@") {
					continue
				}
				if found++; !pinned.MatchString(use[1]) || !strings.HasPrefix(use[2], " # v") {
					t.Errorf("%s: %s%s: name the action by its commit, and its release in a comment", name, use[1], use[2])
				}
			}
			if n := strings.Count(string(data), "uses: actions/checkout@"); n != strings.Count(string(data), "persist-credentials: false") {
				t.Errorf("%s: a checkout leaves its token in .git", name)
			}
		}
	}
	if found < 15 {
		t.Errorf("%d actions found", found)
	}
}

// TestSetupWaza runs what the action setup-waza runs, with a gh that has a release at hand.
func TestSetupWaza(t *testing.T) {
	t.Parallel()
	release := t.TempDir()
	archive := filepath.Join(release, "waza_linux_amd64.tar.gz")
	waza := dockertest.Waza(t)
	if out, err := exec.CommandContext(t.Context(), "tar", "-czf", archive, "-C", filepath.Dir(waza), "--transform", "s/.*/waza/", filepath.Base(waza)).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	sum, err := files.Digest(archive)
	if err != nil {
		t.Fatal(err)
	}
	bin := t.TempDir()
	put(t, filepath.Join(bin, "gh"), "#!/bin/sh\necho \"$*\" >&2\ncp "+release+"/* .\n")
	if err := os.Chmod(filepath.Join(bin, "gh"), 0o755); err != nil {
		t.Fatal(err)
	}
	install := func(sums string) (said, path string, err error) {
		put(t, filepath.Join(release, "checksums.txt"), sums)
		runner := t.TempDir()
		cmd := exec.CommandContext(t.Context(), filepath.Join(root, "setup-waza", "install"))
		cmd.Env = []string{
			"PATH=" + bin + ":" + os.Getenv("PATH"), "RUNNER_OS=Linux", "ARCH=X64", "VERSION=v0.1.0", "REPOSITORY=a/b", "RUNNER_TEMP=" + runner,
			"GITHUB_PATH=" + filepath.Join(runner, "path"), "GITHUB_OUTPUT=" + filepath.Join(runner, "output"),
		}
		out, err := cmd.CombinedOutput()
		added, _ := os.ReadFile(filepath.Join(runner, "path"))
		return string(out), strings.TrimSpace(string(added)), err
	}
	said, path, err := install(fmt.Sprintf("%s  waza_linux_amd64.tar.gz\n", sum))
	if err != nil || !strings.Contains(said, "release download v0.1.0 --repo a/b") {
		t.Fatalf("%v\n%s", err, said)
	}
	if out, err := exec.CommandContext(t.Context(), filepath.Join(path, "waza"), "version").Output(); err != nil || !strings.HasPrefix(string(out), "waza ") {
		t.Errorf("in %q: %v, %q", path, err, out)
	}
	for sums, want := range map[string]string{
		strings.Repeat("0", 64) + "  waza_linux_amd64.tar.gz\n": "is not what checksums.txt",
		sum + "  another.tar.gz\n":                              "does not name",
	} {
		if said, path, err := install(sums); err == nil || path != "" || !strings.Contains(said, want) {
			t.Errorf("%v, path %q\n%s", err, path, said)
		}
	}
}

// TestAction runs what the action at the root runs after the installation, with a waza that says what it is
// given.
func TestAction(t *testing.T) {
	t.Parallel()
	data, err := os.ReadFile(filepath.Join(root, "action.yml"))
	if err != nil {
		t.Fatal(err)
	}
	var action struct {
		Runs struct {
			Steps []struct {
				ID, Run string
			}
		}
	}
	if err := yaml.Unmarshal(data, &action); err != nil || len(action.Runs.Steps) != 2 || action.Runs.Steps[1].ID != "run" {
		t.Fatalf("%v, %+v", err, action)
	}
	bin := t.TempDir()
	put(t, filepath.Join(bin, "waza"), "#!/bin/sh\nprintf '<%s>' \"$@\"\nexit 1\n")
	if err := os.Chmod(filepath.Join(bin, "waza"), 0o755); err != nil {
		t.Fatal(err)
	}
	for given, want := range map[[2]string]string{
		{"", ""}:                                 "",
		{"evals/my eval.yaml", "--trials 3 --q"}: "<--trials><3><--q><evals/my eval.yaml>",
	} {
		temp := t.TempDir()
		cmd := exec.CommandContext(t.Context(), "bash", "-e", "-o", "pipefail", "-c", action.Runs.Steps[1].Run)
		cmd.Env = []string{"PATH=" + bin + ":" + os.Getenv("PATH"), "RUNNER_TEMP=" + temp, "EVAL=" + given[0], "ARGS=" + given[1]}
		out, err := cmd.CombinedOutput()
		said, _ := os.ReadFile(filepath.Join(temp, "waza-comment.md"))
		if cmd.ProcessState.ExitCode() != 1 || string(said) != "<run><--run-dir><"+temp+"/waza-run><--format><github-comment>"+want {
			t.Errorf("%q: %v, %s; comment %s", given, err, out, said)
		}
	}
}
