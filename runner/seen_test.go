package runner

import (
	"os"
	"path/filepath"
	"slices"
	"testing"
)

// Each tool that a server listed or answered in a run is known once, however often it was called.
func TestLastSeen(t *testing.T) {
	run, err := filepath.Abs("../test/frozen/testdata/runs/inventory")
	if err != nil {
		t.Fatal(err)
	}
	t.Chdir(t.TempDir())
	dir := filepath.Join(ownDir, "runs")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.CopyFS(filepath.Join(dir, "20260102-030405-inventory-aaaaaa"), os.DirFS(run)); err != nil {
		t.Fatal(err)
	}
	tools := lastSeen("eval.yaml", "inventory", "inventory").tools
	slices.Sort(tools)
	if len(tools) == 0 || len(slices.Compact(slices.Clone(tools))) != len(tools) {
		t.Errorf("tools: %v", tools)
	}
}
