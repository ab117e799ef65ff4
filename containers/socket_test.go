package containers

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/waza-isolate/waza/sandbox"
)

// A sandbox works over sockets, and over pipes where a socket cannot be made. No program in
// a container finds a socket to connect to, or may make one there.
func TestTransport(t *testing.T) {
	for want, dir := range map[string]string{"socket": t.TempDir(), "pipe": filepath.Join(t.TempDir(), strings.Repeat("long", 30))} {
		t.Run(want, func(t *testing.T) {
			if err := os.MkdirAll(dir, 0o755); err != nil {
				t.Fatal(err)
			}
			t.Setenv("TMPDIR", dir)
			b := openRun(t)
			if got := b.Describe()["transport"]; got != want {
				t.Errorf("the transport is %q, want %q", got, want)
			}
			s, _ := stand(t, b, trialOf(b, networkAirtight, debian))
			found := mustSh(t, s, sandbox.Agent, "ls -A /run/waza 2>/dev/null; touch /run/waza/mine 2>/dev/null && echo made; true")
			if found != "" {
				t.Errorf("in the directory of the socket: %q", found)
			}
			if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
				t.Errorf("left on the host: %v, %v", left, err)
			}
		})
	}
}
