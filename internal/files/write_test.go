package files_test

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/waza-isolate/waza/internal/files"
)

// writers write at a path, each in its own way; open lets it through links, as package os does.
var writers = map[string]struct{ held, open func(path string) error }{
	"MakeDir": {files.MakeDir, func(path string) error { return os.MkdirAll(path, 0o755) }},
	"Create": {
		func(path string) error {
			file, err := files.Create(path, os.O_WRONLY)
			if err == nil {
				err = file.Close()
			}
			return err
		},
		func(path string) error { return os.WriteFile(path, nil, 0o600) },
	},
	"Write":     {func(path string) error { return files.Write(path, nil) }, func(path string) error { return os.WriteFile(path, nil, 0o600) }},
	"Remove":    {files.Remove, os.Remove},
	"RemoveAll": {files.RemoveAll, os.RemoveAll},
	"RemoveHalfWritten": {
		func(path string) error { return files.RemoveHalfWritten(filepath.Dir(path)) },
		func(path string) error { return os.Remove(path) },
	},
}

// Whatever is a link on the way, nothing outside changes; os changes it, so that the attack is one.
func TestNoWriterFollowsALink(t *testing.T) {
	for name, w := range writers {
		for way, link := range map[string]struct{ at, to, path string }{
			"a directory":         {"in/link", "../out", "in/link/.file-1"},
			"a directory above":   {"in/link", "..", "in/link/out/.file-1"},
			"an absolute link":    {"in/link", "/ABSOLUTE", "in/link/.file-1"},
			"a link to a link":    {"in/link", "../second", "in/link/.file-1"},
			"a link further down": {"out/sub", "../out", "out/sub/.file-1"},
		} {
			t.Run(name+"/"+way, func(t *testing.T) {
				for _, attack := range []bool{false, true} {
					t.Chdir(t.TempDir())
					out, _ := filepath.Abs("out")
					err := errors.Join(os.Mkdir("in", 0o700), os.Mkdir("out", 0o700), os.Symlink("out", "second"), os.Symlink(strings.Replace(link.to, "/ABSOLUTE", out, 1), link.at))
					if strings.HasPrefix(name, "Remove") {
						err = errors.Join(err, os.WriteFile("out/.file-1", nil, 0o600))
					}
					before, errRead := os.ReadDir("out")
					if err = errors.Join(err, errRead); err != nil {
						t.Fatal(err)
					}
					do := w.held
					if attack {
						do = w.open
					}
					err = do(link.path)
					after, errRead := os.ReadDir("out")
					if errRead != nil {
						t.Fatal(errRead)
					}
					switch changed := len(before) != len(after); {
					case changed != attack:
						t.Errorf("by os: %t, something outside changed: %t, %v", attack, changed, err)
					case !attack && (!errors.Is(err, files.ErrLink) || !strings.Contains(err.Error(), link.at+" is a link")):
						t.Errorf("it says: %v", err)
					}
				}
			})
		}
	}
}

// A link, a pipe, a directory or a hard link in place of the file is not written.
func TestWriteOnlyFiles(t *testing.T) {
	dir := t.TempDir()
	at := func(name string) string { return filepath.Join(dir, name) }
	err := errors.Join(
		os.WriteFile(at("outside"), []byte("kept"), 0o600), os.Symlink("outside", at("link")), os.Symlink("nothing", at("dangling")), os.Link(at("outside"), at("hard")),
		syscall.Mkfifo(at("pipe"), 0o600), os.Mkdir(at("dir"), 0o700),
	)
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{
		"link": "it is a link, through which", "dangling": "it is a link, through which", "pipe": "is not a regular file", "dir": "is a directory", "outside/x": "not a directory",
	} {
		_, err := files.Create(at(name), os.O_WRONLY|os.O_TRUNC)
		for _, err := range []error{err, files.Write(at(name), []byte("bad")), files.Writable(at(name))} {
			if of, ok := errors.AsType[*fs.PathError](err); !ok || of.Path != at(name) || !strings.Contains(of.Err.Error(), want) {
				t.Errorf("%s: %v", name, err)
			}
		}
	}
	if _, err := files.Create(at("hard"), os.O_WRONLY|os.O_TRUNC); err == nil || !strings.Contains(err.Error(), "hard link") {
		t.Error(err)
	}
	if err := files.Write(at("hard"), []byte("new")); err != nil {
		t.Error(err)
	}
	if info, err := os.Stat(at("hard")); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", info.Mode(), err)
	}
	if text, err := os.ReadFile(at("outside")); string(text) != "kept" {
		t.Errorf("%q, %v", text, err)
	}
	if _, err := os.Lstat(at("nothing")); !errors.Is(err, fs.ErrNotExist) {
		t.Error("the dangling link was followed")
	}
}

// A failed write leaves the file as it was, and nothing beside it.
func TestReplaceFails(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "file")
	failed := errors.New("no more")
	if err := files.Write(path, []byte("old")); err != nil {
		t.Fatal(err)
	}
	if err := files.Replace(path, func(w io.Writer) error { _, _ = w.Write([]byte("new")); return failed }); !errors.Is(err, failed) {
		t.Error(err)
	}
	entries, _ := os.ReadDir(dir)
	if text, err := os.ReadFile(path); string(text) != "old" || len(entries) != 1 {
		t.Errorf("%q, %v, %v", text, entries, err)
	}
}

// A user's own link is followed once it was named, and what does not exist yet stays.
func TestNamed(t *testing.T) {
	t.Chdir(t.TempDir())
	err := errors.Join(os.MkdirAll("disk/runs", 0o700), os.Symlink("disk", "mine"), os.Symlink("nowhere", "dangling"), os.Symlink("loop", "loop"), os.WriteFile("file", nil, 0o600))
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{"": ".", ".": ".", "mine/runs/x/y": "disk/runs/x/y", "mine": "disk", "new/a": "new/a", "dangling/a": "dangling/a", "loop/a": "loop/a", "file/a": "file/a", "../x": "../x"} {
		if got := files.Named(name); got != want {
			t.Errorf("%q: %q; want %q", name, got, want)
		}
	}
	if got := files.NamedFile("mine/file"); got != "disk/file" {
		t.Error(got)
	}
	if err := files.MakeDir("dangling/a"); !errors.Is(err, files.ErrLink) {
		t.Error(err)
	}
	if err := files.MakeDir("../" + filepath.Base(mustAbs(t)) + "/up/there"); err != nil {
		t.Error(err)
	}
}

func mustAbs(t *testing.T) string {
	t.Helper()
	dir, err := filepath.Abs(".")
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

// A directory that is swapped for a link while files are written leads nothing out.
func TestWritesInARace(t *testing.T) {
	t.Chdir(t.TempDir())
	if err := errors.Join(os.MkdirAll("in/dir", 0o700), os.Mkdir("out", 0o700), os.Symlink("../out", "in/link")); err != nil {
		t.Fatal(err)
	}
	var done atomic.Bool
	swapped := make(chan int)
	go func() {
		n := 0
		for ; !done.Load() || n == 0; n++ {
			_ = os.Rename("in/dir", "in/away")
			_ = os.Rename("in/link", "in/dir")
			_ = os.Rename("in/dir", "in/link")
			_ = os.Rename("in/away", "in/dir")
		}
		swapped <- n
	}()
	for range 300 {
		_ = files.Write("in/dir/a", nil)
		_ = files.MakeDir("in/dir/b")
		_ = files.Remove("in/dir/b")
	}
	done.Store(true)
	n := <-swapped
	if entries, err := os.ReadDir("out"); err != nil || len(entries) > 0 {
		t.Errorf("after %d swaps: %v, %v", n, entries, err)
	}
}
