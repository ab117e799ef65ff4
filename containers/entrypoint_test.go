package containers

import (
	"archive/tar"
	"bytes"
	"context"
	"crypto/rand"
	"io"
	"strings"
	"testing"

	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/client"

	"github.com/waza-isolate/waza/internal/dockertest"
	"github.com/waza-isolate/waza/sandbox"
	"github.com/waza-isolate/waza/sandbox/guests"
	"github.com/waza-isolate/waza/sandbox/process"
)

// imageOf makes an image of Debian with an executable script /start and a
// configuration, removed at the test's end.
func imageOf(t *testing.T, b *Backend, script string, conf container.Config) string {
	t.Helper()
	ref := "waza-test-" + strings.ToLower(rand.Text()) + ":1"
	id, err := b.engine.createContainer(within(t), &container.Config{Image: debian, Cmd: []string{"-"}, Labels: labels(b.run, wholeRun, roleAside)}, &container.HostConfig{NetworkMode: "none"}, nil, "")
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := b.engine.removeContainer(context.Background(), id); err != nil {
			t.Error(err)
		}
	}()
	var content bytes.Buffer
	out := tar.NewWriter(&content)
	if err := out.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: "start", Mode: 0o755, Size: int64(len(script))}); err != nil {
		t.Fatal(err)
	}
	if _, err := io.WriteString(out, script); err != nil {
		t.Fatal(err)
	}
	if err := out.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := b.engine.CopyToContainer(within(t), id, client.CopyToContainerOptions{DestinationPath: "/", Content: &content}); err != nil {
		t.Fatal(err)
	}
	conf.Labels = map[string]string{"waza.test": b.run}
	if _, err := b.engine.ContainerCommit(within(t), id, client.ContainerCommitOptions{Reference: ref, Config: &conf}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { dockertest.DropImage(t, ref) })
	return ref
}

// Arguments stand in place of the image's CMD, behind its entrypoint.
func TestEntrypoint(t *testing.T) {
	t.Parallel()
	b := openRun(t)
	const script = "#!/bin/sh\necho start \"$@\"\n"
	both := imageOf(t, b, script, container.Config{Entrypoint: []string{"/start", "one"}, Cmd: []string{"usual"}})
	command := imageOf(t, b, script, container.Config{Cmd: []string{"/start", "usual"}})
	s, _ := stand(t, b, trialOf(b, sandbox.NetworkAirtight, both, command))
	for _, test := range []struct {
		container string
		spec      process.Spec
		want      string
	}{
		{"s0", process.Spec{}, "start one usual"},
		{"s0", process.Spec{OfImage: true}, "start one usual"},
		{"s0", process.Spec{OfImage: true, Args: []string{"mine"}}, "start one mine"},
		{"s0", process.Spec{Args: []string{"/start", "mine"}}, "start mine"},
		{"s1", process.Spec{OfImage: true}, "start usual"},
		{"s1", process.Spec{OfImage: true, Args: []string{"/start", "mine"}}, "start mine"},
	} {
		p, err := s.Start(within(t), test.container, test.spec)
		if err != nil {
			t.Errorf("%s %+v: %v", test.container, test.spec, err)
			continue
		}
		go func() { _, _ = io.Copy(io.Discard, p.Stderr()) }()
		said, _ := io.ReadAll(p.Stdout())
		if _, err := p.Wait(); err != nil || strings.TrimSpace(string(said)) != test.want {
			t.Errorf("%s %+v: %q, %v, want %q", test.container, test.spec, said, err, test.want)
		}
	}
	s.containers["s0"].Program = guests.Program{}
	if _, err := s.Start(within(t), "s0", process.Spec{OfImage: true}); err == nil || !strings.Contains(err.Error(), "no command, and its image has none") {
		t.Errorf("neither entrypoint nor CMD: %v", err)
	}
}

// An entrypoint that begins as root and drops it fails, and is advised on; with
// the user it drops to and its directory it works.
func TestEntrypointThatWantsRoot(t *testing.T) {
	t.Parallel()
	b := openRun(t)
	const insists = `#!/bin/sh
set -e
mkdir -p /var/lib/app
chown nobody /var/lib/app
exec setpriv --reuid=nobody --regid=nogroup --clear-groups "$@"
`
	const yields = `#!/bin/sh
if [ "$(id -u)" = 0 ]; then exec setpriv --reuid=nobody --regid=nogroup --clear-groups "$0" "$@"; fi
exec "$@"
`
	write := []string{"sh", "-c", "echo kept > /var/lib/app/file && cat /var/lib/app/file && id -un"}
	stubborn := imageOf(t, b, insists, container.Config{Entrypoint: []string{"/start"}, Cmd: write})
	usual := imageOf(t, b, yields, container.Config{Entrypoint: []string{"/start"}, Cmd: write, User: "root"})
	dropping := imageOf(t, b, insists, container.Config{Entrypoint: []string{"setpriv", "--reuid=nobody", "--clear-groups"}, Cmd: write})
	minded := imageOf(t, b, insists, container.Config{Entrypoint: []string{"/start"}, Cmd: write, User: "nobody"})

	trial := trialOf(b, sandbox.NetworkAirtight, stubborn, usual, dropping, minded, stubborn, usual)
	for _, name := range []string{"s4", "s5"} {
		trial.Container(name).User, trial.Container(name).Writable = "nobody", []string{"/var/lib/app"}
	}
	s, _ := stand(t, b, trial)
	const tail = "; if that is the reason, set user to the user it is made for, writable to the directories it writes to, and, where its entrypoint insists on root, command to the program itself"
	for _, test := range []struct {
		container string
		spec      process.Spec
		output    string // empty: it fails
		advice    string
	}{
		{"s0", process.Spec{OfImage: true}, "", "its image names no user, so it ran as a user without rights, on a read-only root file system" + tail},
		{"s1", process.Spec{OfImage: true}, "", "its image names root as its user, so it ran as a user without rights, on a read-only root file system" + tail},
		{"s2", process.Spec{OfImage: true}, "", "its image names no user, so it ran as a user without rights, on a read-only root file system; its entrypoint setpriv is made to begin as root" + tail},
		{"s3", process.Spec{OfImage: true}, "", ""},
		{"s4", process.Spec{Args: write}, "kept\nnobody\n", ""},
		{"s5", process.Spec{OfImage: true}, "kept\nnobody\n", ""},
	} {
		p, err := s.Start(within(t), test.container, test.spec)
		if err != nil {
			t.Fatalf("%s: %v", test.container, err)
		}
		go func() { _, _ = io.Copy(io.Discard, p.Stderr()) }()
		said, _ := io.ReadAll(p.Stdout())
		exit, err := p.Wait()
		if err != nil || (exit.Code == 0) != (test.output != "") || string(said) != test.output {
			t.Errorf("%s: %q, %+v, %v", test.container, said, exit, err)
		}
		if got := s.Hint(test.container); got != test.advice {
			t.Errorf("%s: advice\n%s\nwant\n%s", test.container, got, test.advice)
		}
	}
	if got := s.Hint(sandbox.Agent); !strings.HasSuffix(got, "set config.isolation.agent.user to the user it is made for") {
		t.Errorf("advice for the agent: %s", got)
	}
	if got := s.Hint("nobody"); got != "" {
		t.Errorf("advice for nobody: %s", got)
	}
}

// A server's writable directories belong to its user and are limited in size, and it can
// write nowhere else.
func TestWritable(t *testing.T) {
	t.Parallel()
	b := openRun(t)
	trial := trialOf(b, sandbox.NetworkAirtight, debian)
	trial.Container("s0").User, trial.Container("s0").Writable = "nobody", []string{"/srv/data", "/srv/data/deep", "/var/lib/app"}
	s, _ := stand(t, b, trial)
	if got := mustSh(t, s, "s0", "for d in /srv/data /srv/data/deep /var/lib/app; do echo x > $d/x && stat -c '%U %a' $d; done"); got != "nobody 700\nnobody 700\nnobody 700" {
		t.Errorf("the directories are %q", got)
	}
	for what, script := range map[string]string{
		"writes beside it":   "echo x > /srv/x || echo x > /var/lib/x || echo x > /x",
		"writes without end": "head -c 5000000 /dev/zero > /srv/data/much",
	} {
		if e := sh(t, s, "s0", script); e.err != nil || e.exit.Code == 0 {
			t.Errorf("it %s: %+v", what, e)
		}
	}
}
