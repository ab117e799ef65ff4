package main

import (
	"bufio"
	"bytes"
	"context"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/waza-isolate/waza/internal/dockertest"
)

// The scripted model listens on loopback until Ctrl-C, tells of each request, and ends
// with the answers that it is still at.
func TestModelStub(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "script.yaml")
	if err := os.WriteFile(file, []byte("turns: [{stall: 10m}, {say: \"Hello,\\e[31m you.\"}]"), 0o600); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, dockertest.Waza(t), "model-stub", "--script", file, "--listen", ":0")
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	line, err := bufio.NewReader(stdout).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	address := strings.TrimSpace(line)
	if host, _, err := net.SplitHostPort(strings.TrimPrefix(address, "http://")); err != nil || host != "127.0.0.1" {
		t.Errorf("it listens at %q", address)
	}

	transport := &http.Transport{}
	defer transport.CloseIdleConnections()
	ask := func() *http.Response {
		body := strings.NewReader(`{"model":"m\u001b[2J","messages":[{"role":"user","content":"Hi"}]}`)
		response, err := (&http.Client{Transport: transport}).Post(address+"/v1/chat/completions", "application/json", body)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = response.Body.Close() })
		return response
	}
	stalled := ask()
	content, err := io.ReadAll(ask().Body)
	if err != nil || !strings.Contains(string(content), "you.") {
		t.Errorf("%v: %s", err, content)
	}
	if err := cmd.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); err != nil {
		t.Errorf("%v\n%s", err, &stderr)
	}
	if _, err := io.ReadAll(stalled.Body); err == nil {
		t.Error("the answer that stalled has an end")
	}
	want := "200 POST /v1/chat/completions m[2J: turn 1, stall\n200 POST /v1/chat/completions m[2J: turn 1\n"
	if stderr.String() != want {
		t.Errorf("it told %q, want %q", &stderr, want)
	}
}

func TestOnLoopback(t *testing.T) {
	for address, want := range map[string]string{
		":8080": "127.0.0.1:8080", "0.0.0.0:8080": "0.0.0.0:8080", "[::1]:0": "[::1]:0", "8080": "8080",
	} {
		if got := onLoopback(address); got != want {
			t.Errorf("%s is %s, want %s", address, got, want)
		}
	}
}
