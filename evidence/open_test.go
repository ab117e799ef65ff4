package evidence_test

import (
	"errors"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/waza-isolate/waza/evidence"
)

// hostileDir returns a directory with a file "file" and hostile entries.
func hostileDir(t *testing.T) (dir string) {
	t.Helper()
	dir = filepath.Join(t.TempDir(), "trial")
	at := func(name string) string { return filepath.Join(dir, name) }
	err := errors.Join(
		os.MkdirAll(at("real"), 0o700), os.MkdirAll(at("../outside"), 0o700),
		os.WriteFile(at("file"), []byte("text"), 0o600), os.WriteFile(at("real/file"), []byte("text"), 0o600),
		os.WriteFile(at("../outside/file"), []byte("private"), 0o600),
		os.Symlink(at("../outside/file"), at("link")), os.Symlink("file", at("inside")),
		os.Symlink(at("../outside"), at("away")), os.Symlink("real", at("near")),
		syscall.Mkfifo(at("pipe"), 0o600), // who opens it waits for ever
	)
	if err != nil {
		t.Fatal(err)
	}
	listener, err := net.ListenUnix("unix", &net.UnixAddr{Name: at("socket"), Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = listener.Close() })
	return dir
}

func TestOpen(t *testing.T) {
	dir := hostileDir(t)
	for name, want := range map[string]string{
		"link":            "/link is a link",
		"inside":          "/inside is a link",
		"away/file":       "/away is a link",
		"near/file":       "/near is a link",
		"pipe":            "/pipe is a named pipe",
		"socket":          "/socket is a socket",
		"../outside/file": ` names "../outside/file", which is not in it`,
		"/etc/passwd":     ` names "/etc/passwd", which is not in it`,
	} {
		want := dir + want + ": a run directory holds regular files only"
		if file, err := evidence.Open(dir, name); file != nil || !errors.Is(err, evidence.ErrNotPlain) || err.Error() != want {
			t.Errorf("%s: %v, want %s", name, err, want)
		}
	}
	for name, want := range map[string]error{"missing": fs.ErrNotExist, "real": syscall.EISDIR, "file/below": syscall.ENOTDIR} {
		_, err := evidence.Open(dir, name)
		if of, ok := errors.AsType[*fs.PathError](err); !ok || !errors.Is(err, want) || of.Path != filepath.Join(dir, name) {
			t.Errorf("%s: %v, want %v", name, err, want)
		}
	}
	if _, err := evidence.Open(filepath.Join(dir, "pipe"), "file"); !errors.Is(err, syscall.ENOTDIR) {
		t.Errorf("a pipe as the directory: %v", err)
	}
	for _, name := range []string{"file", "real/file"} {
		if data, err := evidence.ReadFile(dir, name); string(data) != "text" || err != nil {
			t.Errorf("%s: %q, %v", name, data, err)
		}
	}
}

// Files that exceed the limits are not read.
func TestLimits(t *testing.T) {
	dir := t.TempDir()
	at := func(name string) string { return filepath.Join(dir, name) }
	err := errors.Join(
		os.WriteFile(at(evidence.TrialFile), nil, 0o600), os.Truncate(at(evidence.TrialFile), 1<<40),
		os.WriteFile(at(evidence.CallsFile), nil, 0o600), os.Truncate(at(evidence.CallsFile), 1<<40),
		os.WriteFile(at(evidence.VerdictsFile), []byte("["+strings.Repeat("{},", 1<<20)+"{}]"), 0o600),
	)
	if err != nil {
		t.Skipf("SKIPPED: this file system has no files of a tebibyte: %v", err)
	}
	d := evidence.Dir(dir)
	_, trial := d.Trial()
	_, calls := d.Calls()
	_, verdicts := d.Verdicts()
	for err, want := range map[error]string{
		trial:    "trial.json has 1099511627776 bytes, more than the maximum of 268435456",
		calls:    "calls.jsonl has 1099511627776 bytes, more than the maximum of 1073741824",
		verdicts: "verdicts.json has more than 1048576 values",
	} {
		if err == nil || !strings.HasSuffix(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
	}
}

// Whatever of a trial is read is opened so, and no link of it is added to.
func TestDirReadsFilesOnly(t *testing.T) {
	for name, read := range map[string]func(evidence.Dir) error{
		evidence.TrialFile:                                func(d evidence.Dir) error { _, err := d.Trial(); return err },
		evidence.VerdictsFile:                             func(d evidence.Dir) error { _, err := d.Verdicts(); return err },
		evidence.CallsFile:                                func(d evidence.Dir) error { _, err := d.Calls(); return err },
		evidence.EventsFile:                               func(d evidence.Dir) error { _, err := d.Events(); return err },
		evidence.TranscriptFile:                           func(d evidence.Dir) error { _, err := d.Transcript(); return err },
		evidence.CatalogsFile:                             func(d evidence.Dir) error { _, err := d.Catalogs(); return err },
		evidence.NarrationFile:                            func(d evidence.Dir) error { _, err := d.Narration(); return err },
		evidence.ObservedFile:                             func(d evidence.Dir) error { _, err := d.Observed(); return err },
		evidence.WorkspaceFile:                            func(d evidence.Dir) error { _, err := d.Workspace(); return err },
		evidence.ServersDir + "/x.stderr":                 func(d evidence.Dir) error { _, _, err := d.ServerWrote("x"); return err },
		evidence.AttemptsDir + "/1/" + evidence.TrialFile: func(d evidence.Dir) error { _, err := d.Earlier(); return err },
		evidence.StepsFile: func(d evidence.Dir) error {
			_, err := d.Steps()
			return errors.Join(err, d.AddStep(evidence.Step{}))
		},
		evidence.ModelsFile: func(d evidence.Dir) error {
			for _, err := range d.ModelCalls() {
				return err
			}
			return nil
		},
		evidence.FramesFile:    firstFrame,
		evidence.FramesDir:     firstFrame,
		evidence.FramesOf("x"): firstFrame,
	} {
		outside := filepath.Join(t.TempDir(), "private")
		dir := t.TempDir()
		at := filepath.Join(dir, name)
		err := errors.Join(os.WriteFile(outside, []byte("{}\n"), 0o600), os.MkdirAll(filepath.Dir(at), 0o700), os.Symlink(outside, at))
		if err != nil {
			t.Fatal(err)
		}
		if err := read(evidence.Dir(dir)); !errors.Is(err, evidence.ErrNotPlain) {
			t.Errorf("%s: %v", name, err)
		}
		if info, err := os.Lstat(at); err != nil || info.Mode()&fs.ModeSymlink == 0 {
			t.Errorf("%s: the link is gone", name)
		}
	}
}

func firstFrame(d evidence.Dir) error {
	for _, err := range d.Frames() {
		return err
	}
	return nil
}

func TestCheckPlain(t *testing.T) {
	dir := hostileDir(t)
	if err := evidence.CheckPlain(filepath.Join(dir, "real")); err != nil {
		t.Error(err)
	}
	if err := evidence.CheckPlain(dir); !errors.Is(err, evidence.ErrNotPlain) || !strings.HasPrefix(err.Error(), dir+"/away is a link") {
		t.Error(err)
	}
	named := filepath.Join(filepath.Dir(dir), "named") // by whoever gives the command
	if err := os.Symlink(filepath.Join(dir, "real"), named); err != nil {
		t.Fatal(err)
	}
	if err := evidence.CheckPlain(named); err != nil {
		t.Error(err)
	}
}

// A large file of holes is refused at once, whichever of a run's files it is.
func TestCheckPlain_Hollow(t *testing.T) {
	dir := t.TempDir()
	frames := filepath.Join(dir, "trials", "t", "1", "frames.jsonl")
	if err := errors.Join(os.MkdirAll(filepath.Dir(frames), 0o755), os.WriteFile(frames, []byte("{}\n"), 0o644), os.Truncate(frames, 1<<20)); err != nil {
		t.Fatal(err)
	}
	if err := evidence.CheckPlain(dir); err != nil {
		t.Errorf("a small file with holes: %v", err)
	}
	if err := os.Truncate(frames, 8<<30); err != nil {
		t.Skip("this file system has no sparse files of 8 GiB: ", err)
	}
	if err := evidence.CheckPlain(dir); !errors.Is(err, evidence.ErrNotPlain) || !strings.Contains(err.Error(), "frames.jsonl has 8192 MiB, of which almost nothing was ever written") {
		t.Errorf("8 GiB of holes: %v", err)
	}
}
