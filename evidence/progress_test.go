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

	"github.com/waza-isolate/waza/evidence/secret"
)

func appendProgress(t *testing.T, dir string, secrets *secret.Set, all ...Progress) {
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
	dir, secrets := t.TempDir(), &secret.Set{}
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
	if got := readProgress(t, dir); len(got) != 1 {
		t.Errorf("with a torn line: %v", got)
	}
	appendProgress(t, dir, secrets, Progress{
		Task: "buy", Number: 1, Attempt: 1, Phase: "done", Class: ClassFail, Reason: ReasonGraders,
		Message: "said s3cret-key" + strings.Repeat(".", maxProgressMessage) + "\nand more",
	})
	got := readProgress(t, dir)
	want := []Progress{begun, {
		Task: "buy", Number: 1, Attempt: 1, Phase: "done", Class: ClassFail, Reason: ReasonGraders,
		Message: "said **********" + strings.Repeat(".", maxProgressMessage-len("said s3cret-key")) + text.Ellipsis,
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
	for name, lay := range map[string]func(path string) error{
		"pipe":      func(path string) error { return syscall.Mkfifo(path, 0o600) },
		"directory": func(path string) error { return os.Mkdir(path, 0o700) },
		"link":      func(path string) error { return os.Symlink("/etc/hostname", path) },
	} {
		dir := t.TempDir()
		if err := lay(filepath.Join(dir, ProgressFile)); err != nil {
			t.Fatal(err)
		}
		if log, err := OpenProgress(dir, nil); err == nil {
			t.Errorf("%s: opened", name)
			_ = log.Close()
		}
	}
}

func readProgress(t *testing.T, dir string) []Progress {
	t.Helper()
	lines, err := os.ReadFile(filepath.Join(dir, ProgressFile))
	if err != nil {
		t.Fatal(err)
	}
	return ParseProgress(lines)
}

// A line that is too long is left out, and the one behind it is not.
func TestLongProgress(t *testing.T) {
	t.Parallel()
	got := ParseProgress([]byte(`{"task":"long","number":1,"phase":"` + strings.Repeat("p", maxProgressLine) + `"}` + "\n" +
		`{"task":"last","number":1,"phase":"done"}`))
	if len(got) != 1 || got[0].Task != "last" {
		t.Errorf("%d lines", len(got))
	}
}

// FuzzParseProgress checks that all parsed lines have a phase.
func FuzzParseProgress(f *testing.F) {
	for _, seed := range []string{
		`{"t":"2026-01-02T03:04:05Z","task":"a","number":1,"attempt":1,"phase":"done","outcome":"pass"}` + "\n{\"task\":",
		"\n\n\x00{}\n[]", `{"task":1}`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, content []byte) {
		got := ParseProgress(content)
		if len(got) > bytes.Count(content, []byte("\n"))+1 {
			t.Fatalf("%d lines", len(got))
		}
		for _, p := range got {
			if !p.valid() {
				t.Fatalf("%+v", p)
			}
		}
	})
}
