package trial

import (
	"archive/tar"
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/waza-isolate/waza/eval"
	"github.com/waza-isolate/waza/runner/plan"
)

func headers(t *testing.T, r io.Reader) (all []*tar.Header) {
	t.Helper()
	for in := tar.NewReader(r); ; {
		header, err := in.Next()
		if errors.Is(err, io.EOF) {
			return all
		}
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, header)
	}
}

func TestWriteTree(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "run.sh"), []byte("exit 0\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	script := plan.File{WorkspaceFile: eval.WorkspaceFile{Path: "/srv/run.sh", Source: &eval.Source{Dir: dir, Path: "run.sh", Size: 7, Executable: true}}}
	var tree bytes.Buffer
	out := tar.NewWriter(&tree)
	if err := errors.Join(writeFiles(out, []plan.File{plan.NewFile("a.txt", "abc"), script}), out.Close()); err != nil {
		t.Fatal(err)
	}
	type entry struct {
		Name string
		Mode int64
		Size int64
	}
	var got []entry
	for _, header := range headers(t, &tree) {
		got = append(got, entry{header.Name, header.Mode, header.Size})
	}
	if diff := cmp.Diff([]entry{{"a.txt", 0o644, 3}, {"srv/run.sh", 0o755, 7}}, got); diff != "" {
		t.Error(diff)
	}

	if err := os.WriteFile(filepath.Join(dir, "run.sh"), nil, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := writeFiles(tar.NewWriter(io.Discard), []plan.File{script}); !errors.Is(err, io.EOF) {
		t.Errorf("a file that shrank since it was planned: %v", err)
	}
}
