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

	"github.com/waza-isolate/waza/internal/tree"
	"github.com/waza-isolate/waza/internal/tree/treetest"
)

// FuzzUnpack unpacks arbitrary bytes, checks that nothing is written outside, and packs the
// result again.
func FuzzUnpack(f *testing.F) {
	f.Add(treetest.Tar(f, 0o644, treetest.Entry{Name: "a/b", Content: "x"}))
	f.Add(treetest.Tar(f, 0o644, treetest.Entry{Name: "../x", Content: "x"}))
	f.Add(treetest.Tar(f, 0o644, treetest.Entry{Name: "l", Kind: tar.TypeSymlink, Link: ".."}, treetest.Entry{Name: "l/x", Content: "x"}))
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
		_ = tree.Pack(root, ".", nil, io.Discard)
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
