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

func TestFilesThereAndBack(t *testing.T) {
	t.Parallel()
	g, dir := startGuest(t), t.TempDir()
	tree := makeTar(t,
		entry{name: "a.txt", content: "a"},
		entry{name: "deep/er/b.txt", content: strings.Repeat("b", 3*maxPayload)},
		entry{name: "empty/", kind: tar.TypeDir},
		entry{name: ".mcp.json", kind: tar.TypeSymlink, link: "/fixed/place"},
		entry{name: ".copilot/mcp.json", kind: tar.TypeSymlink, link: "/fixed/place"},
		entry{name: "other", kind: tar.TypeSymlink, link: "/etc/passwd"},
	)
	must(t, g.Put(t.Context(), dir, bytes.NewReader(tree)))
	listener, err := net.Listen("unix", filepath.Join(dir, "socket"))
	must(t, err)
	defer func() { _ = listener.Close() }()

	var back bytes.Buffer
	must(t, g.Get(t.Context(), dir, "/fixed/place", &back))
	got := readTar(t, &back)
	want := map[string]string{
		"a.txt": "a", "deep/": "", "deep/er/": "", "deep/er/b.txt": strings.Repeat("b", 3*maxPayload),
		"empty/": "", "other": "-> /etc/passwd", "socket": "",
	}
	if !maps.Equal(got, want) {
		t.Errorf("got %q", slices.Sorted(maps.Keys(got)))
	}
}

// TestNothingHides makes files unreadable; root, whom no mode stops, sees them
// anyway, so this tells more where the tests run as somebody else.
func TestNothingHides(t *testing.T) {
	t.Parallel()
	g, dir := startGuest(t), t.TempDir()
	must(t, os.Mkdir(filepath.Join(dir, "d"), 0o755))
	must(t, os.WriteFile(filepath.Join(dir, "d", "inner"), []byte("x"), 0))
	must(t, os.WriteFile(filepath.Join(dir, "outer"), []byte("y"), 0))
	must(t, os.Chmod(filepath.Join(dir, "d"), 0))
	must(t, syscall.Mkfifo(filepath.Join(dir, "pipe"), 0))
	var back bytes.Buffer
	must(t, g.Get(t.Context(), dir, "", &back))
	got, want := readTar(t, &back), map[string]string{"d/": "", "d/inner": "x", "outer": "y", "pipe": ""}
	if !maps.Equal(got, want) {
		t.Errorf("got %q", got)
	}
}

func TestPutRefuses(t *testing.T) {
	t.Parallel()
	g := startGuest(t)
	for name, tree := range map[string][]byte{
		"a name that leads out":        makeTar(t, entry{name: "../out", content: "x"}),
		"a deep name that leads out":   makeTar(t, entry{name: "a/../../out", content: "x"}),
		"an absolute name":             makeTar(t, entry{name: "/out", content: "x"}),
		"a way through a link":         makeTar(t, entry{name: "l", kind: tar.TypeSymlink, link: ".."}, entry{name: "l/out", content: "x"}),
		"a way through a long link":    makeTar(t, entry{name: "l", kind: tar.TypeSymlink, link: "/tmp"}, entry{name: "l/waza-out", content: "x"}),
		"a device":                     makeTar(t, entry{name: "d", kind: tar.TypeBlock}),
		"a hard link":                  makeTar(t, entry{name: "h", kind: tar.TypeLink, link: "/etc/passwd"}),
		"what is no tar":               []byte(strings.Repeat("no tar ", 1000)),
		"a tar that ends in a file":    makeTar(t, entry{name: "a", content: strings.Repeat("x", 2000)})[:1000],
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

func TestManyFiles(t *testing.T) {
	t.Parallel()
	g, dir := startGuest(t), t.TempDir()
	var entries []entry
	for i := range 2000 {
		entries = append(entries, entry{name: fmt.Sprintf("%d/%d", i%50, i), content: fmt.Sprint(i)})
	}
	must(t, g.Put(t.Context(), dir, bytes.NewReader(makeTar(t, entries...))))
	var back bytes.Buffer
	must(t, g.Get(t.Context(), dir, "", &back))
	if got := len(readTar(t, &back)); got != 2050 {
		t.Errorf("%d entries came back", got)
	}
}

// TestGetToAWriterThatFails must neither hang nor lose the session.
func TestGetToAWriterThatFails(t *testing.T) {
	t.Parallel()
	g, dir := startGuest(t), t.TempDir()
	must(t, os.WriteFile(filepath.Join(dir, "big"), make([]byte, 8<<20), 0o644))
	within(t, 20*time.Second, "get", func() {
		if err := g.Get(t.Context(), dir, "", failingWriter{}); !errors.Is(err, errFull) {
			t.Errorf("got %v", err)
		}
	})
	must(t, g.Get(t.Context(), dir, "", io.Discard))
}

var errFull = errors.New("full")

type failingWriter struct{}

func (failingWriter) Write([]byte) (int, error) { return 0, errFull }
