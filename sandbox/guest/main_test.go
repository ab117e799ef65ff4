package guest

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/waza-isolate/waza/internal/memtest"
	"github.com/waza-isolate/waza/sandbox/process"
)

// guestEnv makes the test binary a guest.
const guestEnv = "WAZA_TEST_GUEST"

func TestMain(m *testing.M) {
	if said := os.Getenv(strayEnv); said != "" {
		if err := strayMain(said); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	if os.Getenv(guestEnv) == "" {
		memtest.Main(map[string]memtest.Role{victimRole: victim})
		goleak.VerifyTestMain(m)
		return
	}
	if err := Main(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "guest:", err)
		os.Exit(1)
	}
}

// plain is any connection as a stream; its CloseWrite is its Close, as that of yamux is.
type plain struct{ net.Conn }

func (p plain) CloseWrite() error { return p.Conn.Close() }

func linkOf(c net.Conn) *link { return newLink(plain{c}) }

// startGuest runs a guest in a process of its own, as it runs in a container but
// for its number, and ends it with the test. The guest must then have ended well:
// under -race, a race in it fails the test too.
func startGuest(t *testing.T) *Guest {
	t.Helper()
	g, _ := startGuestWith(t, nil)
	return g
}

// overBoth runs a test with a guest whose requests go over its pipe, and with one of sockets.
func overBoth(t *testing.T, test func(*testing.T, *Guest)) {
	t.Run("pipe", func(t *testing.T) {
		t.Parallel()
		test(t, startGuest(t))
	})
	t.Run("sockets", func(t *testing.T) {
		t.Parallel()
		g, _ := startOverSockets(t)
		test(t, g)
	})
}

// startGuestWith starts a guest with a socket that its arguments name.
func startGuestWith(t *testing.T, ln *net.UnixListener, args ...string) (*Guest, *stdioPipe) {
	t.Helper()
	cmd := exec.Command(os.Args[0], args...)
	cmd.Env = append(os.Environ(), guestEnv+"=1", "GORACE=atexit_sleep_ms=10") // a second otherwise
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	in, err := cmd.StdinPipe()
	must(t, err)
	out, err := cmd.StdoutPipe()
	must(t, err)
	must(t, cmd.Start())
	pipe := &stdioPipe{ReadCloser: out, in: in}
	g, err := Connect(t.Context(), pipe, ln)
	if err != nil {
		_ = cmd.Wait()
		t.Fatalf("connect: %v\n%s", err, stderr.Bytes())
	}
	t.Cleanup(func() {
		if err := g.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
		if err := cmd.Wait(); err != nil {
			t.Errorf("guest: %v\n%s", err, stderr.Bytes())
		}
	})
	return g, pipe
}

type stdioPipe struct {
	io.ReadCloser
	in   io.WriteCloser
	once sync.Once
}

func (p *stdioPipe) Write(b []byte) (int, error) { return p.in.Write(b) }

func (p *stdioPipe) Close() (err error) {
	p.once.Do(func() { err = errors.Join(p.in.Close(), p.ReadCloser.Close()) })
	return err
}

// result is what a program left.
type result struct {
	stdout, stderr []byte
	exit           process.Exit
	err            error
}

// finish closes a program's stdin after it took input, and reads it to its end.
func finish(p process.Process, input io.Reader) result {
	var r result
	var all sync.WaitGroup
	all.Go(func() {
		_, _ = io.Copy(p.Stdin(), input)
		_ = p.Stdin().Close()
	})
	all.Go(func() { r.stdout, _ = io.ReadAll(p.Stdout()) })
	all.Go(func() { r.stderr, _ = io.ReadAll(p.Stderr()) })
	r.exit, r.err = p.Wait()
	all.Wait()
	return r
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// within fails the test where f does not return in time.
func within(t *testing.T, limit time.Duration, what string, f func()) {
	t.Helper()
	done := make(chan struct{})
	go func() { defer close(done); f() }()
	select {
	case <-done:
	case <-time.After(limit):
		t.Fatalf("%s: not done after %s", what, limit)
	}
}
