package main

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httputil"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/waza-isolate/waza/evidence"
	"github.com/waza-isolate/waza/internal/dockertest"
	"github.com/waza-isolate/waza/sandbox/selftest"
)

// weakEngine is a proxy to the engine that removes one option of networks, so that the host has
// an address on every task network. It returns the value of DOCKER_HOST for it.
func weakEngine(t *testing.T) string {
	t.Helper()
	return dockertest.Front(t, func(engine *httputil.ReverseProxy) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if strings.HasSuffix(r.URL.Path, "/networks/create") {
				body, _ := io.ReadAll(r.Body)
				body = bytes.ReplaceAll(body, []byte(`"com.docker.network.bridge.inhibit_ipv4":"true"`), []byte(`"com.docker.network.bridge.inhibit_ipv4":"false"`))
				r.Body, r.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
			}
			engine.ServeHTTP(w, r)
		})
	})
}

// TestCertificateCache checks that a project can bring no certificate along: its own directory is not
// the cache, whatever the environment says.
func TestCertificateCache(t *testing.T) {
	home, dotfiles, project := t.TempDir(), t.TempDir(), t.TempDir()
	if err := os.MkdirAll(filepath.Join(project, "sub", ".cache"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(filepath.Join(project, "sub", ".cache"), filepath.Join(home, "link")); err != nil {
		t.Fatal(err)
	}
	git := func(dir string) string {
		if err := os.MkdirAll(filepath.Join(dir, ".git"), 0o700); err != nil {
			t.Fatal(err)
		}
		return dir
	}
	for _, test := range []struct {
		home, cache, at string
		want            bool
	}{
		{home, "", project, true}, {home, "", home, true}, {home, home + "/other", project, true},
		{home, project + "/.cache", project, false}, {home, project + "/sub/.cache", project, false}, {home, home + "/link", project, false},
		{home, project + "/.cache", git(project) + "/sub", false}, {project, "", project + "/sub", false}, {home, project + "-other", project, true},
		{git(dotfiles), "", dotfiles, false},
	} {
		t.Setenv("HOME", test.home)
		t.Setenv("XDG_CACHE_HOME", test.cache)
		t.Chdir(test.at)
		if got := certificateCache() != (selftest.Cache{}); got != test.want {
			t.Errorf("%+v: %t", test, got)
		}
	}
}

// TestWeakSandbox checks that a run on an engine whose sandboxes do not hold ends before its
// first trial and, if the command line allows it, that all reports say so.
func TestWeakSandbox(t *testing.T) {
	t.Parallel()
	p := newProject(t, `
-- eval.yaml --
name: NAME
config: {trials_per_task: 1, executor: script}
tasks: [task.yaml]
-- task.yaml --
{id: x, inputs: {prompt: x}, script: [{say: a}]}
`)
	p.env = append(p.env, "DOCKER_HOST="+weakEngine(t), "XDG_CACHE_HOME="+t.TempDir())
	holes := []string{"host-tcp", "bridge-tcp", "dns-host"}

	c := p.run(exitInfra)
	said := c.stderr.String()
	for _, hole := range holes {
		if !strings.Contains(said, hole+" got out") || !strings.Contains(said, "--allow-weak "+hole) {
			t.Errorf("stderr says nothing of %s:\n%s", hole, said)
		}
	}
	if out := c.stdout.String(); strings.Contains(out, "nothing was isolated") || strings.Contains(out, "weak sandbox") {
		t.Errorf("stdout of a run that did not begin:\n%s", out)
	}
	// What got out is not allowed by having got out.
	if c := p.start("run", "--resume", "run").wait(exitInfra); !strings.Contains(c.stderr.String(), "--allow-weak host-tcp") {
		t.Errorf("resumed: %s", c.stderr.String())
	}
	if p.exists("run", "trials") {
		t.Error("a trial was run")
	}
	if got := p.record().Certificate; got == nil || got.Probed != evidence.ProbedNow || len(got.With(evidence.AttackGotOut)) != len(holes) {
		t.Errorf("certificate %+v", got)
	}

	args := []string{"run", "--isolate", "eval.yaml", "--run-dir", "allowed"}
	for _, hole := range holes {
		args = append(args, "--allow-weak", hole)
	}
	out := p.start(args...).wait(exitOK).stdout.String()
	if !strings.Contains(out, "weak sandbox: host-tcp, bridge-tcp, dns-host got out, allowed by --allow-weak") {
		t.Errorf("stdout:\n%s", out)
	}
	var record struct{ Certificate evidence.Certificate }
	var results struct{ Config struct{ Weak []string } }
	var trial evidence.Trial
	for file, into := range map[string]any{"run.json": &record, "results.json": &results, "trials/x/1/trial.json": &trial} {
		if err := json.Unmarshal([]byte(p.read("allowed", file)), into); err != nil {
			t.Fatal(err)
		}
	}
	if record.Certificate.Probed != evidence.ProbedCached {
		t.Errorf("the certificate was probed %s", record.Certificate.Probed)
	}
	for _, a := range record.Certificate.With(evidence.AttackGotOut) {
		if !a.Allowed || !slices.Contains(results.Config.Weak, a.Name) || !strings.Contains(strings.Join(trial.Guarantees.Missing, "\n"), a.Name) {
			t.Errorf("%+v is not told: %q, %q", a, results.Config.Weak, trial.Guarantees.Missing)
		}
	}
	if graded := p.start("grade", "allowed").wait(exitOK).stdout.String(); !strings.Contains(graded, "weak sandbox: host-tcp") {
		t.Errorf("waza grade:\n%s", graded)
	}
}
