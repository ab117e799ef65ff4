package runner

import (
	"path/filepath"
	"testing"
)

func TestHeld(t *testing.T) {
	dir := t.TempDir()
	if Held(dir) || Held(filepath.Join(dir, "missing")) {
		t.Error("held by nobody")
	}
	held, err := Hold(dir)
	if err != nil {
		t.Fatal(err)
	}
	if !Held(dir) {
		t.Error("not held")
	}
	if err := held.Close(); err != nil {
		t.Fatal(err)
	}
	if Held(dir) {
		t.Error("held by who gave it up")
	}
}

// Who takes a directory is never told that another has it because somebody asks.
func TestAskingDisturbsNobody(t *testing.T) {
	dir := t.TempDir()
	done, asked := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(asked)
		for {
			select {
			case <-done:
				return
			default:
				Held(dir)
			}
		}
	}()
	defer func() { close(done); <-asked }()
	for range 2000 {
		held, err := Hold(dir)
		if err != nil {
			t.Fatal(err)
		}
		if !Held(dir) {
			t.Fatal("not held")
		}
		if err := held.Close(); err != nil {
			t.Fatal(err)
		}
	}
}
