package files_test

import (
	"errors"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/waza-isolate/waza/internal/files"
)

func TestRead(t *testing.T) {
	dir := t.TempDir()
	at := func(name string) string { return filepath.Join(dir, name) }
	if err := errors.Join(
		os.WriteFile(at("empty"), nil, 0o600),
		os.WriteFile(at("full"), make([]byte, 1024), 0o600),
		os.WriteFile(at("larger"), make([]byte, 1025), 0o600),
		syscall.Mkfifo(at("pipe"), 0o600), // who opens it waits for ever
	); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{
		"empty":   "",
		"full":    "",
		"larger":  "is larger than 1 KiB",
		"pipe":    "is not a regular file",
		".":       "is a directory",
		"missing": "no such file or directory",
	} {
		data, err := files.Read(at(name), 1024)
		if want == "" {
			if info, statErr := os.Stat(at(name)); err != nil || statErr != nil || int64(len(data)) != info.Size() {
				t.Errorf("%s: %d bytes, %v", name, len(data), err)
			}
			continue
		}
		of, ok := errors.AsType[*fs.PathError](err)
		if !ok || of.Path != at(name) || of.Err.Error() != want || data != nil {
			t.Errorf("%s: %v, want %q", name, err, want)
		}
		if large := name == "larger"; errors.Is(err, files.ErrTooLarge) != large {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// A reader without an end is read no further than shows that.
func TestReadFromTheEndless(t *testing.T) {
	for most, want := range map[int64]string{0: "is larger than 0 bytes", 1000: "is larger than 1000 bytes", 3 << 10: "is larger than 3 KiB", 2 << 20: "is larger than 2048 KiB"} {
		var r endless
		if data, err := files.ReadFrom(&r, most); data != nil || !errors.Is(err, files.ErrTooLarge) || err.Error() != want || int64(r) != most+1 {
			t.Errorf("%d: %v after %d bytes", most, err, r)
		}
	}
	if data, err := files.ReadFrom(strings.NewReader("12345"), 5); string(data) != "12345" || err != nil {
		t.Errorf("%q, %v", data, err)
	}
}

type endless int64

func (r *endless) Read(p []byte) (int, error) {
	*r += endless(len(p))
	return len(p), nil
}

// A pipe, a link to one, a socket and a device are refused at once, by every way to open them.
func TestSpecialFiles(t *testing.T) {
	dir := t.TempDir()
	pipe := filepath.Join(dir, "pipe")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Skip(err)
	}
	if err := os.Symlink("pipe", filepath.Join(dir, "link")); err != nil {
		t.Fatal(err)
	}
	socket, err := net.Listen("unix", filepath.Join(dir, "socket"))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = socket.Close() }()
	for _, name := range []string{"pipe", "link", "socket"} {
		_, inDir := files.OpenIn(dir, name)
		_, opened := files.Open(filepath.Join(dir, name))
		_, read := files.Read(filepath.Join(dir, name), 9)
		_, digest := files.Digest(filepath.Join(dir, name))
		for _, err := range []error{inDir, opened, read, digest} {
			if !errors.Is(err, files.ErrNotRegular) || !strings.Contains(err.Error(), name) {
				t.Errorf("%s: %v", name, err)
			}
		}
		if _, err := files.OpenIn(filepath.Join(dir, name), "file"); !errors.Is(err, syscall.ENOTDIR) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := files.Open("/dev/null"); !errors.Is(err, files.ErrNotRegular) {
		t.Error(err)
	}
	if _, err := files.OpenIn(dir, "."); !errors.Is(err, syscall.EISDIR) {
		t.Error(err)
	}
}

func TestText(t *testing.T) {
	for content, want := range map[string]string{"": "", "\ufeffid\r\n": "id\r\n", "é\ufeff\ufffd": "é\ufeff\ufffd"} {
		if got, err := files.Text([]byte(content)); err != nil || string(got) != want {
			t.Errorf("%q: %q, %v", content, got, err)
		}
	}
	for content, where := range map[string]string{"\xff\xfea\x00": "0xff in line 1, column 1", "a\r\né\xe9": "0xe9 in line 2, column 2", "\ufeffa\xc3": "0xc3 in line 1, column 2"} {
		if _, err := files.Text([]byte(content)); err == nil || !strings.Contains(err.Error(), where) {
			t.Errorf("%q: %v", content, err)
		}
	}
}
