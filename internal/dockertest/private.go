package dockertest

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/moby/moby/client"
)

// Private is a Docker engine that belongs to one test, which can kill, freeze and restart
// it. It has its own PID, mount and network namespaces, so that it and the shared engine do
// not affect each other. All of it ends with one process, which ends with the test's.
type Private struct {
	t      testing.TB
	dir    string
	parent string // of its containers' cgroups
	flags  []string
	holder *exec.Cmd // keeps the namespaces
	hold   io.Closer // ends the holder when closed
	inside string    // host PID of process 1 in the namespaces
	engine *exec.Cmd // nil while it is not running
	api    *client.Client
}

const (
	// engineUp is the time within which an engine must answer.
	engineUp = 3 * time.Minute
	// engineDown is the time within which its processes must be gone.
	engineDown = 2 * time.Minute
)

// holdNamespaces prints its PID and waits for the end of its input. The engine finds no
// containerd in an empty /run and starts its own. The waiting shell reaps orphans.
const holdNamespaces = `
read -r pid rest </proc/self/stat
mount -t proc proc /proc
mount -t tmpfs tmpfs /run
echo "$pid"
cat >/dev/null
:`

// StartPrivate starts an engine with images copied from the shared engine. It needs root on
// Linux and dockerd; without them it skips or fails the test like [Require]. flags are
// passed to dockerd.
func StartPrivate(t testing.TB, images []string, flags ...string) *Private {
	t.Helper()
	requirePrivate(t)
	dir, err := os.MkdirTemp("", "waza-engine-")
	if err != nil {
		t.Fatal(err)
	}
	p := &Private{t: t, dir: dir, parent: "/" + filepath.Base(dir), flags: flags}
	t.Cleanup(p.remove)
	if err := p.holdNamespaces(); err != nil {
		t.Fatal(err)
	}
	if p.api, err = client.New(client.WithHost(p.Host())); err != nil {
		t.Fatal(err)
	}
	p.Start()
	p.load(images)
	return p
}

func requirePrivate(t testing.TB) {
	t.Helper()
	RequireRoot(t, "an engine of the test's own")
	for _, program := range []string{"dockerd", "unshare", "nsenter"} {
		if _, err := exec.LookPath(program); err != nil {
			Miss(t, "an engine of the test's own: %v", err)
		}
	}
}

// Host returns the value of DOCKER_HOST for the engine.
func (p *Private) Host() string { return "unix://" + filepath.Join(p.dir, "docker.sock") }

// Client returns a client of the engine.
func (p *Private) Client() *client.Client { return p.api }

func (p *Private) holdNamespaces() error {
	p.holder = exec.Command("unshare", "--fork", "--pid", "--mount", "--net", "sh", "-ec", holdNamespaces)
	p.holder.Stderr = os.Stderr
	in, err := p.holder.StdinPipe()
	if err != nil {
		return err
	}
	out, err := p.holder.StdoutPipe()
	if err != nil {
		return err
	}
	if err := p.holder.Start(); err != nil {
		return err
	}
	p.hold = in
	line, err := bufio.NewReader(out).ReadString('\n')
	p.inside = strings.TrimSpace(line)
	return err
}

// enter returns a command that runs in the engine's namespaces.
func (p *Private) enter(args ...string) *exec.Cmd {
	return exec.Command("nsenter", append([]string{"--target", p.inside, "--pid", "--mount", "--net", "--"}, args...)...)
}

// Start starts the engine and returns when it answers.
func (p *Private) Start() {
	p.t.Helper()
	log, err := os.OpenFile(p.log(), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		p.t.Fatal(err)
	}
	defer func() { _ = log.Close() }()
	p.engine = p.enter(append([]string{
		"dockerd", "--host", p.Host(), "--pidfile", p.pidFile(), "--bridge", "none",
		"--data-root", filepath.Join(p.dir, "data"), "--exec-root", filepath.Join(p.dir, "exec"),
		"--exec-opt", "native.cgroupdriver=cgroupfs", "--cgroup-parent", p.parent,
	}, p.flags...)...)
	p.engine.Stdout, p.engine.Stderr = log, log
	if err := p.engine.Start(); err != nil {
		p.t.Fatal(err)
	}
	Await(p.t, engineUp, "the engine of the test's own answers", func() bool {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(p.t.Context()), time.Second)
		defer cancel()
		_, err := p.api.Ping(ctx, client.PingOptions{})
		return err == nil
	})
}

// Kill kills the engine as in a crash. Its containers continue to run.
func (p *Private) Kill() {
	p.t.Helper()
	p.signal("KILL")
	_ = p.engine.Wait()
	p.engine = nil
}

// Freeze stops the engine until Thaw: connections to it are accepted but not answered. It
// returns once the nsenter process has stopped too, since otherwise it would stop after
// Thaw and never continue.
func (p *Private) Freeze() {
	p.t.Helper()
	p.signal("STOP")
	Await(p.t, engineUp, "the command that entered has stopped", func() bool {
		stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", p.engine.Process.Pid))
		_, state, _ := strings.Cut(string(stat), ") ")
		return err != nil || strings.HasPrefix(state, "T")
	})
}

// Thaw ends Freeze. The nsenter process stops with the engine and forwards the signal to
// continue.
func (p *Private) Thaw() {
	p.t.Helper()
	if out, err := exec.Command("kill", "-CONT", strconv.Itoa(p.engine.Process.Pid)).CombinedOutput(); err != nil {
		p.t.Fatalf("kill -CONT: %v: %s", err, out)
	}
}

func (p *Private) signal(name string) {
	p.t.Helper()
	pid, err := os.ReadFile(p.pidFile())
	if err != nil {
		p.t.Fatal(err)
	}
	if out, err := p.enter("kill", "-"+name, strings.TrimSpace(string(pid))).CombinedOutput(); err != nil {
		p.t.Fatalf("kill -%s: %v: %s", name, err, out)
	}
}

func (p *Private) load(images []string) {
	p.t.Helper()
	if len(images) == 0 {
		return
	}
	for _, ref := range images {
		Image(p.t, ref)
	}
	ctx, cancel := context.WithTimeout(p.t.Context(), engineUp)
	defer cancel()
	saved, err := Engine(p.t).ImageSave(ctx, images)
	if err != nil {
		p.t.Fatal(err)
	}
	defer func() { _ = saved.Close() }()
	loaded, err := p.api.ImageLoad(ctx, saved)
	if err != nil {
		p.t.Fatal(err)
	}
	_, err = io.Copy(io.Discard, loaded)
	if err := errors.Join(err, loaded.Close()); err != nil {
		p.t.Fatal(err)
	}
}

func (p *Private) log() string     { return filepath.Join(p.dir, "log") }
func (p *Private) pidFile() string { return filepath.Join(p.dir, "pid") }

// remove ends everything in the namespaces, including mounts and bridges, and removes what
// is outside of them.
func (p *Private) remove() {
	if p.t.Failed() {
		p.showLog()
	}
	if p.api != nil {
		_ = p.api.Close()
	}
	if p.engine != nil {
		// A stopped nsenter would not reap its engine, for which the namespaces wait.
		_ = p.engine.Process.Kill()
		_ = p.engine.Wait()
	}
	if p.hold != nil {
		_ = p.hold.Close()
		_ = p.holder.Wait()
	}
	var err error
	for deadline := time.Now().Add(engineDown); ; time.Sleep(pollEvery) {
		if err = errors.Join(p.removeCgroups(), os.RemoveAll(p.dir)); err == nil || time.Now().After(deadline) {
			break
		}
	}
	if err != nil {
		p.t.Errorf("an engine of the test's own leaves something: %v", err)
	}
}

func (p *Private) showLog() {
	const shown = 8 << 10
	data, err := os.ReadFile(p.log())
	if err == nil {
		p.t.Logf("the engine's log ends with:\n%s", data[max(0, len(data)-shown):])
	}
}
