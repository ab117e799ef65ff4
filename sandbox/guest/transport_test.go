package guest

import (
	"context"
	"errors"
	"io"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// choose runs transport with a guest that writes a choice, with or without a socket.
func choose(t *testing.T, choice string, ln *net.UnixListener) (io.ReadWriteCloser, error) {
	t.Helper()
	near, far := net.Pipe()
	t.Cleanup(func() { _, _ = near.Close(), far.Close() })
	go func() { _, _ = io.WriteString(far, choice) }()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
	defer cancel()
	conn, err := transport(ctx, near, ln)
	if conn == near {
		t.Log("over the pipe")
	}
	return conn, err
}

func listenAt(t *testing.T, path string) *net.UnixListener {
	t.Helper()
	ln, err := net.ListenUnix("unix", &net.UnixAddr{Net: "unix", Name: path})
	must(t, err)
	t.Cleanup(func() { _ = ln.Close() })
	return ln
}

// A guest that has no socket, that breaks the rule, or that never connects.
func TestTransportRefuses(t *testing.T) {
	if _, err := choose(t, "p", nil); err != nil {
		t.Errorf("the pipe: %v", err)
	}
	for _, choice := range []string{"s", "x", "\x00"} {
		if _, err := choose(t, choice, nil); !errors.Is(err, ErrProtocol) {
			t.Errorf("%q without a socket: %v", choice, err)
		}
	}
	if _, err := choose(t, "", nil); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("a guest that says nothing: %v", err)
	}
	ln := listenAt(t, filepath.Join(t.TempDir(), "s"))
	must(t, ln.SetDeadline(time.Now())) // transport sets its own
	start := time.Now()
	if _, err := choose(t, "s", ln); !errors.Is(err, context.DeadlineExceeded) || time.Since(start) > acceptTimeout {
		t.Errorf("a guest that does not connect: %v", err)
	}
}

// The socket takes one connection, whatever the guest does, and is gone then.
func TestSocketTakesOneConnection(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s")
	ln := listenAt(t, path)
	first, err := net.Dial("unix", path)
	must(t, err)
	second, err := net.Dial("unix", path) // waits to be accepted
	must(t, err)
	conn, err := choose(t, "s", ln)
	must(t, err)
	if _, err := os.Stat(path); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the socket is still there: %v", err)
	}
	if _, err := net.Dial("unix", path); err == nil {
		t.Error("another connection is taken")
	}
	must(t, second.SetReadDeadline(time.Now().Add(2*time.Second)))
	if _, err := second.Read(make([]byte, 1)); err == nil || errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("a connection that waited: %v", err)
	}
	if _, err := first.Write([]byte("x")); err != nil {
		t.Error(err)
	}
	must(t, conn.Close())
}
