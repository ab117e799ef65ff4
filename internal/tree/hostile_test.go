package tree_test

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/waza-isolate/waza/internal/tree"
)

// packed is the headers of a tree, in their order.
func packed(t *testing.T, dir string) []tree.Entry {
	t.Helper()
	root, err := os.OpenRoot(filepath.Dir(dir))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = root.Close() }()
	var out bytes.Buffer
	if err := tree.Pack(root, filepath.Base(dir), nil, &out); err != nil {
		t.Fatal(err)
	}
	var entries []tree.Entry
	for e, err := range tree.Entries(&out) {
		if err != nil {
			t.Fatal(err)
		}
		entries = append(entries, e)
	}
	return entries
}

// TestOddNames packs unusual names, which must be unchanged.
func TestOddNames(t *testing.T) {
	dir := t.TempDir()
	var want []string
	for _, name := range []string{"a\nb", "\x1b[2J", "no \xff UTF-8", "back\\slash", strings.Repeat("n", 255), "  ", "-rf", "..."} {
		for _, step := range []error{
			os.Mkdir(filepath.Join(dir, name), 0o755),
			os.WriteFile(filepath.Join(dir, name, name), nil, 0o644),
			os.Symlink(name, filepath.Join(dir, name, "link")),
		} {
			if step != nil {
				t.Fatal(step)
			}
		}
		want = append(want, name+"/", name+"/"+name, name+"/link")
	}
	var got []string
	for _, h := range packed(t, dir) {
		got = append(got, h.Name)
	}
	slices.Sort(want)
	slices.Sort(got)
	if !slices.Equal(got, want) {
		t.Errorf("got %q", got)
	}
}

// TestDeepTree packs a tree that is deeper than the path limit. It is reported as
// incomplete, and other entries are packed.
func TestDeepTree(t *testing.T) {
	dir := t.TempDir()
	deepen(t, dir, 10_000)
	if err := os.WriteFile(filepath.Join(dir, "z"), []byte("beside"), 0o644); err != nil {
		t.Fatal(err)
	}
	headers := packed(t, dir)
	if len(headers) != tree.MaxDepth+2 || headers[tree.MaxDepth+1].Name != "z" {
		t.Fatalf("%d entries, the last is %q", len(headers), headers[len(headers)-1].Name)
	}
	for i, h := range headers {
		if got := h.Cut(); (got != "") != (i == tree.MaxDepth) {
			t.Errorf("entry %d is cut: %q", i, got)
		}
	}
}

// deepen makes directories in directories, each named by a letter. They are removed
// when the test ends: [os.RemoveAll] takes the square of their number.
func deepen(t *testing.T, dir string, levels int) {
	t.Helper()
	at, err := unix.Open(dir, unix.O_DIRECTORY, 0)
	if err != nil {
		t.Fatal(err)
	}
	for range levels {
		if err := unix.Mkdirat(at, "d", 0o755); err != nil {
			t.Fatal(err)
		}
		next, err := unix.Openat(at, "d", unix.O_DIRECTORY, 0)
		if err != nil {
			t.Fatal(err)
		}
		_ = unix.Close(at)
		at = next
	}
	t.Cleanup(func() { shallow(t, at, levels) })
}

// shallow removes levels of nested directories, from the innermost, which is open.
func shallow(t *testing.T, at, levels int) {
	for range levels {
		above, err := unix.Openat(at, "..", unix.O_DIRECTORY, 0)
		if err == nil {
			_ = unix.Close(at)
			err = unix.Unlinkat(above, "d", unix.AT_REMOVEDIR)
		}
		if err != nil {
			t.Error(err)
			return
		}
		at = above
	}
	_ = unix.Close(at)
}
