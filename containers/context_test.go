package containers

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/containerd/errdefs"
	"github.com/moby/moby/client"

	"github.com/waza-isolate/waza/sandbox"
)

// A busy engine takes connections and answers late: that is not to be called no engine.
func TestSilentEngine(t *testing.T) {
	ln, err := net.Listen("unix", filepath.Join(t.TempDir(), "s"))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = ln.Close() }()
	t.Setenv(client.EnvOverrideHost, "unix://"+ln.Addr().String())
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if _, err := dialEngine(ctx); !errors.Is(err, errEngineSilent) || errors.Is(err, errNoEngine) {
		t.Errorf("an engine that does not answer: %v", err)
	}
	interrupted, interrupt := context.WithCancelCause(t.Context())
	interrupt(errors.New("interrupted"))
	if _, err := dialEngine(interrupted); err == nil || err.Error() != "interrupted" {
		t.Errorf("an interrupted request: %v", err)
	}
	_ = ln.Close()
	if _, err := dialEngine(t.Context()); !errors.Is(err, errNoEngine) {
		t.Errorf("an engine that is gone: %v", err)
	}
	t.Setenv(client.EnvOverrideHost, "ssh://me@away.example")
	if _, err := dialEngine(t.Context()); err == nil || errors.Is(err, errNoEngine) || !strings.Contains(err.Error(), "forward its socket") {
		t.Errorf("an engine behind ssh: %v", err)
	}
}

// Engines that run as a user or in a machine of their own have their sockets elsewhere. Later ones of
// the list come first.
func TestOtherSocket(t *testing.T) {
	home := t.TempDir()
	t.Setenv("HOME", home)
	t.Setenv("XDG_RUNTIME_DIR", filepath.Join(home, "run"))
	if found, ok := otherSocket(); ok {
		t.Errorf("found %+v where there is none", found)
	}
	for _, socket := range []place{
		{".rd/docker.sock", "Rancher Desktop"}, {".config/colima/default/docker.sock", "Colima"}, {".colima/default/docker.sock", "Colima"},
		{".orbstack/run/docker.sock", "OrbStack"}, {".docker/desktop/docker.sock", "Docker Desktop"}, {".docker/run/docker.sock", "Docker Desktop"},
		{"run/docker.sock", "rootless Docker"},
	} {
		path := filepath.Join(home, socket.host)
		before, _ := otherSocket()
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, nil, 0o644)); err != nil {
			t.Fatal(err)
		}
		if got, _ := otherSocket(); got != before {
			t.Errorf("got %+v, where nobody listens, want %+v", got, before)
		}
		_ = os.Remove(path)
		ln, err := net.Listen("unix", path)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = ln.Close() }()
		if got, _ := otherSocket(); got != (place{"unix://" + path, "at the socket of " + socket.how}) {
			t.Errorf("got %+v, want the socket of %s", got, socket.how)
		}
	}
}

// TestFindEngine has what names an engine, the weakest first.
func TestFindEngine(t *testing.T) {
	home := t.TempDir()
	t.Setenv("HOME", home)
	t.Setenv("XDG_RUNTIME_DIR", filepath.Join(home, "run"))
	for _, name := range []string{client.EnvOverrideHost, "DOCKER_CONTEXT", "DOCKER_CONFIG"} {
		t.Setenv(name, "")
	}
	want := func(how, host string) {
		t.Helper()
		if got := findEngine(); got != (place{host, how}) {
			t.Errorf("got %+v, want %s %s", got, host, how)
		}
	}
	if exists("/var/run/docker.sock") {
		want("at the default socket", client.DefaultDockerHost)
	}
	for name, host := range map[string]string{"of-config": "unix:///of-config.sock", "of-variable": "ssh://of-variable"} {
		sum := sha256.Sum256([]byte(name))
		dir := filepath.Join(home, ".docker/contexts/meta", hex.EncodeToString(sum[:]))
		meta := fmt.Sprintf(`{"Endpoints": {"docker": {"Host": %q}}}`, host)
		if err := errors.Join(os.MkdirAll(dir, 0o755), os.WriteFile(filepath.Join(dir, "meta.json"), []byte(meta), 0o644)); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(home, ".docker/config.json"), []byte(`{"currentContext": "of-config"}`), 0o644); err != nil {
		t.Fatal(err)
	}
	want("by the docker command's context, of-config", "unix:///of-config.sock")
	t.Setenv("DOCKER_CONTEXT", "none")
	want("by DOCKER_CONTEXT, none", "")
	if _, err := dialEngine(t.Context()); err == nil || !strings.Contains(err.Error(), "by DOCKER_CONTEXT, none, and that context is not there") {
		t.Errorf("a context that is not there: %v", err)
	}
	t.Setenv("DOCKER_CONTEXT", "of-variable")
	want("by DOCKER_CONTEXT, of-variable", "ssh://of-variable")
	t.Setenv(client.EnvOverrideHost, "tcp://127.0.0.1:1")
	want("by DOCKER_HOST", "tcp://127.0.0.1:1")
}

// TestSaid has what engines say, and what a person is shown of it.
func TestSaid(t *testing.T) {
	long := "opening seccomp profile failed: open " + strings.Repeat(`{"defaultAction": "SCMP_ACT_ERRNO"}`, 600) + ": file name too long"
	for _, test := range []struct{ says, want string }{
		{"Error response from daemon: No such image: x", "No such image: x"},
		{"Error response from daemon: failed to create task for container: failed to create shim task: OCI runtime create failed: runc create failed: unable to start container process: error during container init: exec: \"/x\": no such file or directory: unknown", `exec: "/x": no such file or directory`},
		{"Error response from daemon: OCI runtime create failed: container_linux.go:380: starting container process caused: process_linux.go:545: container init caused: rootfs_linux.go:76: mounting \"x\" caused: no space left on device: unknown", `container init caused: mounting "x" caused: no space left on device`},
		{`Delete "http://%2Fvar%2Frun%2Fdocker.sock/v1.45/networks/x": EOF`, "EOF"},
		{`Error response from daemon: Head "https://registry.example/v2/x/manifests/1": no basic auth credentials`, `Head "https://registry.example/v2/x/manifests/1": no basic auth credentials`},
		{"Error response from daemon: " + long, long[:300] + " … " + long[len(long)-100:]},
		{"Error response from daemon: <!DOCTYPE html>\n<html>\n\t<title>Forbidden</title>\n</html>\n", "<!DOCTYPE html> <html> <title>Forbidden</title> </html>"},
		{"Error response from daemon: " + strings.Repeat("é", 1000), strings.Repeat("é", 150) + " … " + strings.Repeat("é", 50)},
	} {
		err := error(said{errdefs.ErrConflict.WithMessage(test.says)})
		if err.Error() != test.want || !errdefs.IsConflict(err) {
			t.Errorf("%q\nwant %q", err, test.want)
		}
	}
	late := said{&url.Error{Op: "Post", URL: "http://%2Fx/v1.45/networks/create", Err: context.DeadlineExceeded}}
	if want := "the engine did not answer in time"; late.Error() != want || !errors.Is(late, context.DeadlineExceeded) {
		t.Errorf("%q, want %q", late, want)
	}
}

// Podman answers questions as Docker does, and would then refuse every container.
func TestPodmanIsRefused(t *testing.T) {
	podman := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Api-Version", "1.41")
		w.Header().Set("Content-Type", "application/json")
		switch {
		case strings.HasSuffix(r.URL.Path, "/version"):
			fmt.Fprint(w, `{"Version":"5.4.2","ApiVersion":"1.41","Components":[{"Name":"Podman Engine","Version":"5.4.2"}]}`)
		case strings.HasSuffix(r.URL.Path, "/info"):
			fmt.Fprint(w, `{"ServerVersion":"5.4.2","OSType":"linux"}`)
		}
	}))
	defer podman.Close()
	t.Setenv("DOCKER_HOST", "tcp://"+podman.Listener.Addr().String())
	_, err := dialEngine(t.Context())
	const want = "is Podman 5.4.2, which takes no seccomp filter over Docker's API; use Docker Engine 20.10 or later"
	if err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("%v, want one that says that it %s", err, want)
	}
	checks := Examine(t.Context())
	if len(checks) != 1 || checks[0].Status != sandbox.CheckProblem || !strings.Contains(checks[0].Message, want) {
		t.Errorf("doctor says %+v", checks)
	}
}
