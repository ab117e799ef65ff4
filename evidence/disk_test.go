package evidence

import (
	"path/filepath"
	"strings"
	"testing"
)

func TestCheckSpace(t *testing.T) {
	if err := CheckSpace(filepath.Join(t.TempDir(), "not", "there", "yet")); err != nil {
		t.Error(err)
	}
	if err := checkFree(leastFree); err != nil {
		t.Error(err)
	}
	if err := checkFree(leastFree - 1<<20); err == nil || !strings.Contains(err.Error(), "has 15.0 MiB free, and a trial needs 16 MiB") {
		t.Errorf("got %v", err)
	}
}
