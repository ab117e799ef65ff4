// Package golden compares output with golden files.
package golden

import (
	"errors"
	"flag"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// Update makes tests write their golden files instead of comparing with them.
var Update = flag.Bool("update", false, "update the golden files")

// Check compares got with the golden file at path, or writes it with -update.
func Check(t testing.TB, path, got string) {
	t.Helper()
	if *Update {
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(got), 0o644)); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatalf("%v; write it with -update", err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("%s (-want +got), updated with -update:\n%s", path, diff)
	}
}
