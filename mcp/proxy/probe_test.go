package proxy_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/waza-isolate/waza/evidence"
	"github.com/waza-isolate/waza/mcp/catalog"
	"github.com/waza-isolate/waza/mcp/client"
	"github.com/waza-isolate/waza/mcp/transport"
	"github.com/waza-isolate/waza/sandbox/process"
)

func TestProbe(t *testing.T) {
	t.Parallel()
	tests := map[string]catalog.Server{
		"scripted":  {Name: "scripted", Version: "9", Protocol: "2025-11-25"},
		"ignoring":  {Name: "scripted", Version: "9", Protocol: "2025-11-25"},
		"mcpgo":     {Name: "inventory", Version: "1.2.3", Protocol: "2025-11-25"},
		"stateless": {Name: "new", Version: "2", Protocol: "2026-07-28"},
	}
	for server, want := range tests {
		t.Run(server, func(t *testing.T) {
			rec := newRecorder()
			got, noDiscover, err := client.Probe(t.Context(), rec, owned(t, rec, transport.Server{Name: "s", Launch: launching(t, server)}), nil, true)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(want, got); diff != "" || noDiscover != (server == "ignoring") {
				t.Error(diff, noDiscover)
			}
			rec.event(t, "health")
			frames := rec.all()
			agents := slices.ContainsFunc(frames, func(f evidence.Frame) bool { return f.Sender != evidence.SenderRunner })
			if len(frames) == 0 || agents {
				t.Errorf("%d frames; a probe is the runner's conversation, not the agent's", len(frames))
			}
		})
	}
}

func TestProbeFails(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		launch transport.Launcher
		class  error
		start  time.Duration
		exit   *process.Exit
		says   string
	}{
		"broken": {launching(t, "broken"), client.ErrExited, time.Minute, &process.Exit{Code: 7}, "cannot open database"},
		"deaf":   {launching(t, "deaf"), client.ErrNoAnswer, 2 * time.Second, nil, "startup_timeout is 2s"},
		"absent": {func(context.Context) (process.Process, error) {
			return nil, errors.New("no such file")
		}, client.ErrNotStarted, time.Minute, nil, "no such file"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			var stderr lockedBuffer
			_, _, err := client.Probe(t.Context(), newRecorder(), owned(t, newRecorder(), transport.Server{Name: "files", Launch: tt.launch, Start: tt.start, Stderr: &stderr}), nil, false)
			var failed *client.Error
			if !errors.As(err, &failed) || !errors.Is(err, tt.class) {
				t.Fatalf("error: %v", err)
			}
			if diff := cmp.Diff(tt.exit, failed.Exit); diff != "" {
				t.Error(diff)
			}
			if text := err.Error(); !strings.Contains(text, `"files"`) || !strings.Contains(text, tt.says) {
				t.Errorf("message: %s", text)
			}
			if name == "broken" && !strings.Contains(stderr.String(), "database") {
				t.Error("stderr is not kept")
			}
		})
	}
}
