package guest

import (
	"archive/tar"
	"bytes"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/waza-isolate/waza/internal/tree/treetest"
)

// readTar lists a tar: content by name, links as "-> target".
func readTar(t *testing.T, r io.Reader) map[string]string {
	t.Helper()
	got := map[string]string{}
	for in := tar.NewReader(r); ; {
		h, err := in.Next()
		if errors.Is(err, io.EOF) {
			return got
		}
		must(t, err)
		content, err := io.ReadAll(in)
		must(t, err)
		got[h.Name] = string(content)
		if h.Typeflag == tar.TypeSymlink {
			got[h.Name] = "-> " + h.Linkname
		}
	}
}

func TestFilesThereAndBack(t *testing.T) { overBoth(t, testFilesThereAndBack) }

func testFilesThereAndBack(t *testing.T, g *Guest) {
	dir := t.TempDir()
	tree := treetest.Tar(t, 0o644,
		treetest.Entry{Name: "a.txt", Content: "a"},
		treetest.Entry{Name: "deep/er/b.txt", Content: strings.Repeat("b", 3*maxPayload)},
		treetest.Entry{Name: "empty/", Kind: tar.TypeDir},
		treetest.Entry{Name: ".mcp.json", Kind: tar.TypeSymlink, Link: "/fixed/place"},
		treetest.Entry{Name: ".copilot/mcp.json", Kind: tar.TypeSymlink, Link: "/fixed/place"},
		treetest.Entry{Name: "other", Kind: tar.TypeSymlink, Link: "/etc/passwd"},
	)
	must(t, g.Put(t.Context(), dir, bytes.NewReader(tree)))
	listener, err := net.Listen("unix", filepath.Join(dir, "socket"))
	must(t, err)
	defer func() { _ = listener.Close() }()

	var back bytes.Buffer
	must(t, g.Get(t.Context(), dir, []string{"/fixed/place"}, &back))
	got := readTar(t, &back)
	want := map[string]string{
		"a.txt": "a", "deep/": "", "deep/er/": "", "deep/er/b.txt": strings.Repeat("b", 3*maxPayload),
		"empty/": "", "other": "-> /etc/passwd", "socket": "",
	}
	if !maps.Equal(got, want) {
		t.Errorf("got %q", slices.Sorted(maps.Keys(got)))
	}
}

// TestNothingHides makes files unreadable. Root reads them anyway, so the test proves more
// when it is run as another user.
func TestNothingHides(t *testing.T) { overBoth(t, testNothingHides) }

func testNothingHides(t *testing.T, g *Guest) {
	dir := t.TempDir()
	must(t, os.Mkdir(filepath.Join(dir, "d"), 0o755))
	must(t, os.WriteFile(filepath.Join(dir, "d", "inner"), []byte("x"), 0))
	must(t, os.WriteFile(filepath.Join(dir, "outer"), []byte("y"), 0))
	must(t, os.Chmod(filepath.Join(dir, "d"), 0))
	must(t, syscall.Mkfifo(filepath.Join(dir, "pipe"), 0))
	var back bytes.Buffer
	must(t, g.Get(t.Context(), dir, nil, &back))
	got, want := readTar(t, &back), map[string]string{"d/": "", "d/inner": "x", "outer": "y", "pipe": ""}
	if !maps.Equal(got, want) {
		t.Errorf("got %q", got)
	}
}

func TestPutRefuses(t *testing.T) { overBoth(t, testPutRefuses) }

func testPutRefuses(t *testing.T, g *Guest) {
	for name, tree := range map[string][]byte{
		"a name that leads out":        treetest.Tar(t, 0o644, treetest.Entry{Name: "../out", Content: "x"}),
		"a deep name that leads out":   treetest.Tar(t, 0o644, treetest.Entry{Name: "a/../../out", Content: "x"}),
		"an absolute name":             treetest.Tar(t, 0o644, treetest.Entry{Name: "/out", Content: "x"}),
		"a way through a link":         treetest.Tar(t, 0o644, treetest.Entry{Name: "l", Kind: tar.TypeSymlink, Link: ".."}, treetest.Entry{Name: "l/out", Content: "x"}),
		"a way through a long link":    treetest.Tar(t, 0o644, treetest.Entry{Name: "l", Kind: tar.TypeSymlink, Link: "/tmp"}, treetest.Entry{Name: "l/waza-out", Content: "x"}),
		"a device":                     treetest.Tar(t, 0o644, treetest.Entry{Name: "d", Kind: tar.TypeBlock}),
		"a hard link":                  treetest.Tar(t, 0o644, treetest.Entry{Name: "h", Kind: tar.TypeLink, Link: "/etc/passwd"}),
		"what is no tar":               []byte(strings.Repeat("no tar ", 1000)),
		"a tar that ends in a file":    treetest.Tar(t, 0o644, treetest.Entry{Name: "a", Content: strings.Repeat("x", 2000)})[:1000],
		"no such directory at its end": nil,
	} {
		t.Run(name, func(t *testing.T) {
			outer := t.TempDir()
			dir := filepath.Join(outer, "in")
			if tree != nil {
				must(t, os.Mkdir(dir, 0o755))
			}
			if err := g.Put(t.Context(), dir, bytes.NewReader(tree)); err == nil {
				t.Error("was put")
			}
			left, err := os.ReadDir(outer)
			must(t, err)
			if len(left) > 1 || exists("/out") || exists("/tmp/waza-out") {
				t.Errorf("something came out: %v", left)
			}
		})
	}
}

func exists(path string) bool { _, err := os.Lstat(path); return err == nil }

// TestPipeForADirectory gets a directory that a pipe stands in place of, which nobody
// writes to.
func TestPipeForADirectory(t *testing.T) { overBoth(t, testPipeForADirectory) }

func testPipeForADirectory(t *testing.T, g *Guest) {
	dir := t.TempDir()
	pipe := filepath.Join(dir, "pipe")
	must(t, syscall.Mkfifo(pipe, 0o600))
	within(t, 20*time.Second, "get", func() {
		if err := g.Get(t.Context(), pipe, nil, io.Discard); err == nil {
			t.Error("a pipe was got as a directory")
		}
	})
}

func TestManyFiles(t *testing.T) { overBoth(t, testManyFiles) }

func testManyFiles(t *testing.T, g *Guest) {
	dir := t.TempDir()
	var entries []treetest.Entry
	for i := range 2000 {
		entries = append(entries, treetest.Entry{Name: fmt.Sprintf("%d/%d", i%50, i), Content: fmt.Sprint(i)})
	}
	must(t, g.Put(t.Context(), dir, bytes.NewReader(treetest.Tar(t, 0o644, entries...))))
	var back bytes.Buffer
	must(t, g.Get(t.Context(), dir, nil, &back))
	if got := len(readTar(t, &back)); got != 2050 {
		t.Errorf("%d entries came back", got)
	}
}

// TestGetToAWriterThatFails must neither hang nor lose the session.
func TestGetToAWriterThatFails(t *testing.T) { overBoth(t, testGetToAWriterThatFails) }

func testGetToAWriterThatFails(t *testing.T, g *Guest) {
	dir := t.TempDir()
	must(t, os.WriteFile(filepath.Join(dir, "big"), make([]byte, 8<<20), 0o644))
	within(t, 20*time.Second, "get", func() {
		if err := g.Get(t.Context(), dir, nil, failingWriter{}); !errors.Is(err, errFull) {
			t.Errorf("got %v", err)
		}
	})
	must(t, g.Get(t.Context(), dir, nil, io.Discard))
}

var errFull = errors.New("full")

type failingWriter struct{}

func (failingWriter) Write([]byte) (int, error) { return 0, errFull }
