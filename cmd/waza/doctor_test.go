package main

import (
	"context"
	"encoding/json"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/docker/docker/client"

	"github.com/waza-isolate/waza/internal/checkup"
	"github.com/waza-isolate/waza/internal/dockertest"
)

// doctor runs waza doctor in an empty directory and returns its checks by name.
func doctor(t *testing.T, code int, env ...string) map[string]checkup.Check {
	t.Helper()
	var found struct{ Checks checkup.Checks }
	out := doctorSays(t, code, []string{"--format", "json"}, env...)
	if err := json.Unmarshal([]byte(out), &found); err != nil {
		t.Fatalf("%v in %s", err, out)
	}
	byName := map[string]checkup.Check{}
	for _, check := range found.Checks {
		byName[check.Name] = check
	}
	return byName
}

func doctorSays(t *testing.T, code int, args []string, env ...string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), dockertest.Waza(t), append([]string{"doctor"}, args...)...)
	cmd.Dir = t.TempDir()
	cmd.Env = append(cmd.Environ(), env...)
	out, err := cmd.Output()
	if cmd.ProcessState == nil || cmd.ProcessState.ExitCode() != code {
		t.Fatalf("%v, want exit code %d\n%s", err, code, out)
	}
	return string(out)
}

func TestDoctor(t *testing.T) {
	t.Parallel()
	dockertest.Require(t)
	checks := doctor(t, exitOK)
	for _, name := range []string{"engine", "system", "limits", "seccomp", "storage", "networks", "clock", "memory", "guest", "images", "runs", "run dir"} {
		if check, ok := checks[name]; !ok || check.Status == checkup.Problem {
			t.Errorf("%s: %+v", name, check)
		}
	}
	text := doctorSays(t, exitOK, nil)
	for line := range strings.Lines(text) {
		if len([]rune(line)) > 81 {
			t.Errorf("a line of more than 80 columns: %s", line)
		}
	}
	if !strings.Contains(text, "free in 10.213.0.0/16") {
		t.Errorf("it says %s", text)
	}
}

// Without an engine the doctor says so in one sentence, and looks at the rest.
func TestDoctorWithoutAnEngine(t *testing.T) {
	t.Parallel()
	host := "unix://" + filepath.Join(t.TempDir(), "none.sock")
	checks := doctor(t, exitInfra, "DOCKER_HOST="+host)
	if engine := checks["engine"]; engine.Status != checkup.Problem || engine.Says != "none answers at "+host+", found by DOCKER_HOST" || engine.Mend == "" {
		t.Errorf("%+v", engine)
	}
	if checks["run dir"].Status == "" || len(checks) != 3 {
		t.Errorf("%+v", checks)
	}
}

// An engine that lacks things says so in its answers, which a proxy changes here.
func TestDoctorOfAPoorEngine(t *testing.T) {
	t.Parallel()
	dockertest.Require(t)
	tests := []struct {
		name, check string
		code        int
		change      func(info map[string]any)
		says        string
	}{
		{"no swap limit", "limits", exitOK, func(info map[string]any) { info["SwapLimit"] = false }, "not enforced: the swap"},
		{"no seccomp", "seccomp", exitInfra, func(info map[string]any) { info["SecurityOptions"] = []string{} }, "filters no system calls"},
		{"Windows containers", "engine", exitInfra, func(info map[string]any) { info["OSType"] = "windows" }, "runs windows containers"},
		{"another architecture", "guest", exitInfra, func(info map[string]any) { info["Architecture"] = "s390x" }, "the engine runs linux/s390x"},
		{"a clock ahead", "clock", exitOK, func(info map[string]any) { info["SystemTime"] = "2099-01-01T00:00:00Z" }, "ahead of this machine's"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			check := doctor(t, test.code, "DOCKER_HOST="+poorEngine(t, test.change))[test.check]
			if check.Status == checkup.OK || check.Mend == "" || !strings.Contains(check.Says, test.says) {
				t.Errorf("%+v, want one that says %q", check, test.says)
			}
		})
	}
}

// poorEngine is the engine with another answer to what it is.
func poorEngine(t *testing.T, change func(info map[string]any)) string {
	t.Helper()
	real, err := client.ParseHostURL(client.DefaultDockerHost)
	if err != nil || real.Scheme != "unix" {
		t.Fatalf("no socket at %s: %v", client.DefaultDockerHost, err)
	}
	proxy := httputil.NewSingleHostReverseProxy(&url.URL{Scheme: "http", Host: "engine"})
	transport := &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "unix", real.Host+real.Path)
	}}
	t.Cleanup(transport.CloseIdleConnections)
	proxy.Transport = transport
	handler := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !strings.HasSuffix(r.URL.Path, "/info") {
			proxy.ServeHTTP(w, r)
			return
		}
		r.URL.Scheme, r.URL.Host, r.RequestURI = "http", "engine", ""
		response, err := transport.RoundTrip(r)
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadGateway)
			return
		}
		defer func() { _ = response.Body.Close() }()
		var info map[string]any
		if err := json.NewDecoder(response.Body).Decode(&info); err != nil {
			http.Error(w, err.Error(), http.StatusBadGateway)
			return
		}
		change(info)
		_ = json.NewEncoder(w).Encode(info)
	})
	listener, err := net.Listen("unix", filepath.Join(t.TempDir(), "e"))
	if err != nil {
		t.Fatal(err)
	}
	server := &http.Server{Handler: handler}
	go func() { _ = server.Serve(listener) }()
	t.Cleanup(func() { _ = server.Close() })
	return "unix://" + listener.Addr().String()
}
