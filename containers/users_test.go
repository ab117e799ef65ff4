package containers

import (
	"io"
	"testing"

	"github.com/waza-isolate/waza/evidence"
	"github.com/waza-isolate/waza/internal/dockertest"
	"github.com/waza-isolate/waza/sandbox"
	"github.com/waza-isolate/waza/sandbox/process"
)

func TestLookUp(t *testing.T) {
	const (
		passwd = "root:x:0:0:root:/root:/bin/sh\nnode:x:1000:1001::/home/node:/bin/sh\nbroken\n" +
			"wide:x:1000,size=9g:1000::/:/bin/sh\nmixed:x:1000:5,dev::/:/bin/sh\nempty:x:::/:/bin/sh\nplus:x:+0:+0::/:/bin/sh\n"
		group = "root:x:0:\nstaff:x:50:node\nodd:x:5,suid:\n"
	)
	for user, want := range map[string]string{
		"node": "1000:1001", "node:staff": "1000:50", "node:7": "1000:7", "5:staff": "5:50",
		"nobody": "", "node:nobody": "", "broken": "",
		"wide": "", "mixed": "", "empty": "", "plus": "", "node:odd": "", "+0": "", "wide:7": "",
	} {
		if got, err := lookUp(user, passwd, group); got != want || (err != nil) != (want == "") {
			t.Errorf("%s: %q, %v, want %q", user, got, err, want)
		}
	}
}

// TestUsersByName has an agent whose user is given by name write to its
// directories, which are its own.
func TestUsersByName(t *testing.T) {
	b := openBackend(t)
	dockertest.Image(t, "debian:bookworm-slim")
	trial := attackedTrial(b.run, "users", sandbox.NetworkAirtight)
	trial.Container(sandbox.Agent).Image, trial.Container(sandbox.Agent).User = "debian:bookworm-slim", "nobody"
	s := openSandbox(t, b, trial, func(evidence.Event) {})
	if uid := s.containers[sandbox.Agent].Guest.Hello().UID; uid != 65534 {
		t.Errorf("runs as %d", uid)
	}
	for _, dir := range []string{sandbox.WorkspaceDir, sandbox.HomeDir, "/tmp"} {
		p, err := s.Start(t.Context(), sandbox.Agent, process.Spec{Args: []string{"touch", dir + "/mine"}})
		if err != nil {
			t.Fatal(err)
		}
		go func() { _, _ = io.Copy(io.Discard, p.Stdout()) }()
		said, _ := io.ReadAll(p.Stderr())
		if exit, err := p.Wait(); err != nil || exit.Code != 0 {
			t.Errorf("%s: %v, %v: %s", dir, exit, err, said)
		}
	}
}
