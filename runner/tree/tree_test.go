package tree_test

import (
	"archive/tar"
	"bytes"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/waza-isolate/waza/runner/tree"
)

// entry is one entry of a tar in a test.
type entry struct {
	name, content, link string
	kind                byte
}

func makeTar(t testing.TB, entries ...entry) []byte {
	t.Helper()
	var buf bytes.Buffer
	w := tar.NewWriter(&buf)
	for _, e := range entries {
		if e.kind == 0 {
			e.kind = tar.TypeReg
		}
		h := &tar.Header{Name: e.name, Typeflag: e.kind, Linkname: e.link, Mode: 0o644, Size: int64(len(e.content))}
		if err := w.WriteHeader(h); err != nil {
			t.Fatal(err)
		}
		if _, err := io.WriteString(w, e.content); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return buf.Bytes()
}

// FuzzUnpack unpacks any bytes and looks whether anything stands outside; what
// came of it is packed again.
func FuzzUnpack(f *testing.F) {
	f.Add(makeTar(f, entry{name: "a/b", content: "x"}))
	f.Add(makeTar(f, entry{name: "../x", content: "x"}))
	f.Add(makeTar(f, entry{name: "l", kind: tar.TypeSymlink, link: ".."}, entry{name: "l/x", content: "x"}))
	f.Fuzz(func(t *testing.T, content []byte) {
		outer := t.TempDir()
		dir := filepath.Join(outer, "in")
		if err := os.Mkdir(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		root, err := os.OpenRoot(dir)
		if err != nil {
			t.Fatal(err)
		}
		_ = tree.Unpack(root, bytes.NewReader(content), nil)
		_ = tree.Pack(root, "", io.Discard)
		_ = root.Close()
		err = filepath.WalkDir(outer, func(path string, _ fs.DirEntry, err error) error {
			if path != outer && path != dir && !strings.HasPrefix(path, dir+"/") {
				t.Errorf("%s stands outside", path)
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	})
}
