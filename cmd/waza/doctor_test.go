package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httputil"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/waza-isolate/waza/internal/dockertest"
	"github.com/waza-isolate/waza/sandbox"
)

// doctor runs waza doctor in an empty directory and returns its checks by name.
func doctor(t *testing.T, code int, env ...string) map[string]sandbox.Check {
	t.Helper()
	var found struct{ Checks sandbox.Checks }
	out := doctorSays(t, code, []string{"--format", "json"}, env...)
	if err := json.Unmarshal([]byte(out), &found); err != nil {
		t.Fatalf("%v in %s", err, out)
	}
	byName := map[string]sandbox.Check{}
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
		if check, ok := checks[name]; !ok || check.Status == sandbox.CheckProblem {
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

// TestDoctorWithoutAnEngine checks that doctor reports a missing engine in one sentence, and
// checks the rest.
func TestDoctorWithoutAnEngine(t *testing.T) {
	t.Parallel()
	host := "unix://" + filepath.Join(t.TempDir(), "none.sock")
	checks := doctor(t, exitInfra, "DOCKER_HOST="+host)
	if engine := checks["engine"]; engine.Status != sandbox.CheckProblem || engine.Message != "none answers at "+host+", found by DOCKER_HOST" || engine.Fix == "" {
		t.Errorf("%+v", engine)
	}
	if checks["run dir"].Status == "" || len(checks) != 3 {
		t.Errorf("%+v", checks)
	}
}

// TestDoctorOfAPoorEngine checks doctor with an engine that lacks features, simulated by a
// proxy.
func TestDoctorOfAPoorEngine(t *testing.T) {
	t.Parallel()
	dockertest.Require(t)
	tests := []struct {
		name, check string
		code        int
		change      func(info map[string]any)
		says        string
	}{
		{"no CPU limit, and it refuses to set one", "limits", exitOK, func(info map[string]any) { info["CpuCfsQuota"] = false }, "the CPU time"},
		{"no swap limit", "limits", exitOK, func(info map[string]any) { info["SwapLimit"] = false }, "the swap"},
		{"no seccomp", "seccomp", exitInfra, func(info map[string]any) { info["SecurityOptions"] = []string{} }, "filters no system calls"},
		{"Windows containers", "engine", exitInfra, func(info map[string]any) { info["OSType"] = "windows" }, "runs windows containers"},
		{"another architecture", "guest", exitInfra, func(info map[string]any) { info["Architecture"] = "s390x" }, "the engine runs linux/s390x"},
		{"a clock ahead", "clock", exitOK, func(info map[string]any) { info["SystemTime"] = "2099-01-01T00:00:00Z" }, "ahead of this machine's"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			checks := doctor(t, test.code, "DOCKER_HOST="+poorEngine(t, test.change))
			if tried, ok := checks["container"]; ok != (test.code == exitOK) || ok && tried.Status != sandbox.CheckOK {
				t.Errorf("container: %+v", tried)
			}
			check := checks[test.check]
			if check.Status == sandbox.CheckOK || check.Fix == "" || !strings.Contains(check.Message, test.says) {
				t.Errorf("%+v, want one that says %q", check, test.says)
			}
		})
	}
}

// TestDoctorOfARefusingEngine checks that doctor does all that a run does of each trial, and cuts what an engine says.
func TestDoctorOfARefusingEngine(t *testing.T) {
	t.Parallel()
	dockertest.Require(t)
	for _, test := range []struct {
		name, path, part string // of the requests that the engine refuses
		code             int
		says             string
	}{
		{"filters", "/containers/create", "seccomp=", exitInfra, "create waza-"},
		{"files", "/containers/create", "mcp.json", exitInfra, "create waza-"},
		{"networks", "/networks/create", "", exitOK, "those of a trial with network: bridge, the default, cannot be started: task network: opening"},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			host := dockertest.Front(t, func(engine *httputil.ReverseProxy) http.Handler {
				return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					if !strings.HasSuffix(r.URL.Path, test.path) {
						engine.ServeHTTP(w, r)
						return
					}
					body, _ := io.ReadAll(r.Body)
					r.Body = io.NopCloser(bytes.NewReader(body))
					if !bytes.Contains(body, []byte(test.part)) {
						engine.ServeHTTP(w, r)
						return
					}
					http.Error(w, "opening profile failed: open "+string(body)+": file name too long", http.StatusInternalServerError)
				})
			})
			check := doctor(t, test.code, "DOCKER_HOST="+host)["container"]
			if check.Status == sandbox.CheckOK || len(check.Message) > 700 || !strings.Contains(check.Message, test.says) || !strings.HasSuffix(check.Message, "}: file name too long") {
				t.Errorf("%+v, want one that says %q", check, test.says)
			}
		})
	}
}

// poorEngine is a proxy to the engine that changes its info. As engines do, it refuses a limit of CPU time if it has none.
func poorEngine(t *testing.T, change func(info map[string]any)) string {
	t.Helper()
	var limitsCPU atomic.Bool
	return dockertest.Front(t, func(engine *httputil.ReverseProxy) http.Handler {
		engine.ModifyResponse = func(r *http.Response) error {
			if !strings.HasSuffix(r.Request.URL.Path, "/info") {
				return nil
			}
			var info map[string]any
			if err := errors.Join(json.NewDecoder(r.Body).Decode(&info), r.Body.Close()); err != nil {
				return err
			}
			change(info)
			limitsCPU.Store(info["CpuCfsQuota"] == true)
			changed, err := json.Marshal(info)
			r.Body, r.ContentLength = io.NopCloser(bytes.NewReader(changed)), int64(len(changed))
			r.Header.Set("Content-Length", strconv.Itoa(len(changed)))
			return err
		}
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if strings.HasSuffix(r.URL.Path, "/containers/create") && !limitsCPU.Load() {
				body, _ := io.ReadAll(r.Body)
				r.Body = io.NopCloser(bytes.NewReader(body))
				if bytes.Contains(body, []byte(`"NanoCpus":`)) && !bytes.Contains(body, []byte(`"NanoCpus":0`)) {
					http.Error(w, "NanoCPUs can not be set, as your kernel does not support CPU CFS scheduler or the cgroup is not mounted", http.StatusBadRequest)
					return
				}
			}
			engine.ServeHTTP(w, r)
		})
	})
}
