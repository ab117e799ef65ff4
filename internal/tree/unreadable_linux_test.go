package tree_test

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// TestLease packs a file on which a program holds a lease, so that it cannot be opened without waiting. It
// is reported, and everything else is packed.
func TestLease(t *testing.T) {
	dir := t.TempDir()
	held, err := os.Create(filepath.Join(dir, "held"))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = held.Close() }()
	if _, err := unix.FcntlInt(held.Fd(), unix.F_SETLEASE, unix.F_WRLCK); err != nil {
		t.Skipf("this file system has no leases: %v", err)
	}
	if err := os.WriteFile(filepath.Join(dir, "z"), []byte("beside"), 0o600); err != nil {
		t.Fatal(err)
	}
	entries := packed(t, dir)
	if len(entries) != 2 || entries[0].Cut() != "cannot be read: resource temporarily unavailable" || entries[1].Name != "z" || entries[1].Cut() != "" {
		t.Errorf("%+v", entries)
	}
}

// TestChanging packs a tree that another thread changes all the time: what is there when it is looked at is
// packed, and nothing ends the rest.
func TestChanging(t *testing.T) {
	dir := t.TempDir()
	stop, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		at := filepath.Join(dir, "at")
		for {
			select {
			case <-stop:
				return
			default:
			}
			_ = os.WriteFile(at, make([]byte, 1<<16), 0o600)
			_ = os.Truncate(at, 3)
			_ = os.Remove(at)
			_ = os.Mkdir(at, 0)
			_ = os.Chmod(at, 0o700)
			_ = os.Remove(at)
			_ = os.Symlink("/etc", at)
			_ = os.Remove(at)
			_ = unix.Mkfifo(at, 0)
			_ = os.Remove(at)
		}
	}()
	defer func() { close(stop); <-stopped }()
	for _, name := range []string{"a", "z"} {
		if err := os.WriteFile(filepath.Join(dir, name), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for until := time.Now().Add(time.Second); time.Now().Before(until); {
		entries := packed(t, dir)
		if first, last := entries[0].Name, entries[len(entries)-1].Name; first != "a" || last != "z" {
			t.Fatalf("%q to %q", first, last)
		}
	}
}

// TestClosed packs directories that are closed to their owner, with the one that is packed.
func TestClosed(t *testing.T) {
	for _, mode := range []uint32{0, 0o100, 0o300, 0o400, 0o7000} {
		dir := t.TempDir()
		inner := filepath.Join(dir, "top", "in")
		if err := os.MkdirAll(inner, 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(inner, "file"), []byte("x"), 0); err != nil {
			t.Fatal(err)
		}
		for _, at := range []string{inner, filepath.Dir(inner)} {
			if err := unix.Chmod(at, mode); err != nil {
				t.Fatal(err)
			}
		}
		entries := packed(t, filepath.Dir(inner))
		if len(entries) != 3 || !entries[0].Closed() || uint32(entries[0].Mode) != mode || entries[2].Name != "in/file" || entries[2].Size != 1 || entries[2].Closed() {
			t.Errorf("%#o: %+v", mode, entries)
		}
	}
}
