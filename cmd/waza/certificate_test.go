package main

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/waza-isolate/waza/internal/dockertest"
	"github.com/waza-isolate/waza/runner/evidence"
)

// weakEngine is the engine, but for one option of networks, which it ignores as
// some engines do: the host has an address on every task network. It returns what
// DOCKER_HOST is for it.
func weakEngine(t *testing.T) string {
	t.Helper()
	dial := dockertest.Engine(t).Dialer()
	proxy := &httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) {
			r.SetURL(&url.URL{Scheme: "http", Host: "docker"})
			if strings.HasSuffix(r.In.URL.Path, "/networks/create") {
				body, _ := io.ReadAll(r.In.Body)
				body = bytes.ReplaceAll(body, []byte(`"com.docker.network.bridge.inhibit_ipv4":"true"`), []byte(`"com.docker.network.bridge.inhibit_ipv4":"false"`))
				r.Out.Body, r.Out.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
			}
		},
		Transport:     &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) { return dial(ctx) }, DisableKeepAlives: true},
		FlushInterval: -1,
	}
	path := filepath.Join(t.TempDir(), "engine.sock")
	ln, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	server := &http.Server{Handler: proxy}
	ended := make(chan struct{})
	go func() { _ = server.Serve(ln); close(ended) }()
	t.Cleanup(func() { _ = server.Close(); <-ended })
	return "unix://" + path
}

// A run on an engine whose sandboxes do not hold ends before its first trial, and
// says so wherever verdicts are where the command line lets it go on.
func TestWeakSandbox(t *testing.T) {
	t.Parallel()
	p := newProject(t, `
-- eval.yaml --
name: NAME
config: {trials_per_task: 1, timeout_seconds: 30, executor: script}
tasks: [task.yaml]
-- task.yaml --
{id: x, inputs: {prompt: x}, script: [{say: a}]}
`)
	p.env = append(p.env, "DOCKER_HOST="+weakEngine(t), "XDG_CACHE_HOME="+p.path("cache"))
	holes := []string{"host-tcp", "bridge-tcp", "dns-host"}

	c := p.run(exitInfra)
	said := c.stderr.String()
	for _, hole := range holes {
		if !strings.Contains(said, hole+" got out") || !strings.Contains(said, "--allow-weak "+hole) {
			t.Errorf("stderr says nothing of %s:\n%s", hole, said)
		}
	}
	if p.exists("run", "trials") {
		t.Error("a trial was run")
	}
	if got := p.record().Certificate; got == nil || got.Probed != evidence.ProbedNow || len(got.GotOut()) != len(holes) {
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
	for _, a := range record.Certificate.GotOut() {
		if !a.Allowed || !slices.Contains(results.Config.Weak, a.Name) || !strings.Contains(strings.Join(trial.Guarantees.Missing, "\n"), a.Name) {
			t.Errorf("%+v is not told: %q, %q", a, results.Config.Weak, trial.Guarantees.Missing)
		}
	}
	if graded := p.start("grade", "allowed").wait(exitOK).stdout.String(); !strings.Contains(graded, "weak sandbox: host-tcp") {
		t.Errorf("waza grade:\n%s", graded)
	}
}
