package evidence

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/waza-isolate/waza/internal/text"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/waza-isolate/waza/evidence/redact"
)

func appendProgress(t *testing.T, dir string, secrets *redact.Set, all ...Progress) {
	t.Helper()
	log, err := OpenProgress(dir, secrets)
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range all {
		if err := log.Append(p); err != nil {
			t.Error(err)
		}
	}
	if err := log.Close(); err != nil {
		t.Error(err)
	}
}

// TestProgressGoesOn has a second process go on with what a first one left in the midst
// of a line.
func TestProgressGoesOn(t *testing.T) {
	t.Parallel()
	dir, secrets := t.TempDir(), &redact.Set{}
	secrets.Add("s3cret-key")
	begun := Progress{Task: "buy", Number: 1, Attempt: 1, Phase: "starting"}
	appendProgress(t, dir, secrets, begun)
	path := filepath.Join(dir, ProgressFile)
	whole, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, append(whole, whole[:len(whole)/2]...), 0o644); err != nil {
		t.Fatal(err)
	}
	if got, err := ReadProgress(dir); err != nil || len(got) != 1 {
		t.Errorf("with a torn line: %v, %v", got, err)
	}
	appendProgress(t, dir, secrets, Progress{
		Task: "buy", Number: 1, Attempt: 1, Phase: "done", Class: ClassFail, Reason: ReasonGraders,
		Message: "said s3cret-key" + strings.Repeat(".", maxProgressMessage) + "\nand more",
	})
	got, err := ReadProgress(dir)
	if err != nil {
		t.Fatal(err)
	}
	want := []Progress{begun, {
		Task: "buy", Number: 1, Attempt: 1, Phase: "done", Class: ClassFail, Reason: ReasonGraders,
		Message: "said [REDACTED]" + strings.Repeat(".", maxProgressMessage-len("said s3cret-key")) + text.Ellipsis,
	}}
	if diff := cmp.Diff(want, got, cmpopts.IgnoreFields(Progress{}, "Time")); diff != "" {
		t.Error(diff)
	}
	for _, p := range got {
		if time.Since(p.Time) > time.Hour {
			t.Errorf("at %s", p.Time)
		}
	}
}

func TestProgressThatIsNone(t *testing.T) {
	t.Parallel()
	if got, err := ReadProgress(t.TempDir()); err != nil || got != nil {
		t.Errorf("without a file: %v, %v", got, err)
	}
	for name, lay := range map[string]func(path string) error{
		"pipe":      func(path string) error { return syscall.Mkfifo(path, 0o600) },
		"directory": func(path string) error { return os.Mkdir(path, 0o700) },
		"link":      func(path string) error { return os.Symlink("/etc/hostname", path) },
	} {
		dir := t.TempDir()
		if err := lay(filepath.Join(dir, ProgressFile)); err != nil {
			t.Fatal(err)
		}
		if got, err := ReadProgress(dir); err == nil {
			t.Errorf("%s: read %v", name, got)
		}
		if log, err := OpenProgress(dir, nil); err == nil {
			t.Errorf("%s: opened", name)
			_ = log.Close()
		}
	}
}

// TestLongProgress reads the end of a file that is beyond the bound.
func TestLongProgress(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	line := []byte(`{"task":"a","number":1,"phase":"starting","message":"` + strings.Repeat("m", 1000) + `"}` + "\n")
	content := append([]byte(`{"task":"first","number":1,"phase":"starting"}`+"\n"), bytes.Repeat(line, maxProgress/len(line)+1)...)
	content = append(content, `{"task":"long","number":1,"phase":"`+strings.Repeat("p", maxProgressLine)+`"}`+"\n"...)
	content = append(content, `{"task":"last","number":1,"phase":"done"}`...)
	if err := os.WriteFile(filepath.Join(dir, ProgressFile), content, 0o644); err != nil {
		t.Fatal(err)
	}
	got, err := ReadProgress(dir)
	if err != nil || len(got) < maxProgress/len(line)-maxProgressLine/len(line)-2 || got[0].Task != "a" || got[len(got)-1].Task != "last" || got[len(got)-2].Task != "a" {
		t.Errorf("%d lines, %v", len(got), err)
	}
}

// FuzzReadProgress: whatever the file holds, what is read of it tells of phases.
func FuzzReadProgress(f *testing.F) {
	for _, seed := range []string{
		`{"t":"2026-01-02T03:04:05Z","task":"a","number":1,"attempt":1,"phase":"done","outcome":"pass"}` + "\n{\"task\":",
		"\n\n\x00{}\n[]", `{"task":1}`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, content []byte) {
		dir := t.TempDir()
		if err := os.WriteFile(filepath.Join(dir, ProgressFile), content, 0o644); err != nil {
			t.Fatal(err)
		}
		got, err := ReadProgress(dir)
		if err != nil || len(got) > bytes.Count(content, []byte("\n"))+1 {
			t.Fatalf("%d lines, %v", len(got), err)
		}
		for _, p := range got {
			if !p.valid() {
				t.Fatalf("%+v", p)
			}
		}
	})
}
