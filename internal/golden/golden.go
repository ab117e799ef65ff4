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

// Update makes tests write their golden files in place of comparing with them.
var Update = flag.Bool("update", false, "write the golden files anew")

// Check compares got with the file at path, which -update writes.
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
		t.Errorf("%s (-want +got), written anew with -update:\n%s", path, diff)
	}
}
