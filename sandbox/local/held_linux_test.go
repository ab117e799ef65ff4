package local

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"
)

// hold makes a directory with what only root can leave: a file and a directory that may not be changed,
// and something mounted.
func hold(t *testing.T, dir string) {
	t.Helper()
	fixed, mounted := filepath.Join(dir, "fixed"), filepath.Join(dir, "a mount\nof root")
	err := errors.Join(
		os.MkdirAll(fixed, 0o700), os.Mkdir(mounted, 0o700), os.WriteFile(filepath.Join(fixed, "file"), nil, 0o600),
		unix.Mount("none", mounted, "tmpfs", 0, ""), os.WriteFile(filepath.Join(mounted, "in it"), nil, 0o600),
	)
	if err != nil {
		t.Logf("nothing is mounted: %v", err)
	}
	if out, err := exec.Command("chattr", "+i", filepath.Join(fixed, "file"), fixed).CombinedOutput(); err != nil {
		t.Logf("everything may be changed: %s, %v", out, err)
	}
}
