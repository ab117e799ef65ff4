package evidence

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestLastStderrLine(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if got := Dir(dir).LastStderrLine(); got != "" {
		t.Errorf("of no file %q", got)
	}
	long := strings.Repeat("ä", maxStderrEnd)
	for said, want := range map[string]string{
		"": "", "\n \n": "", "one": "one", "one\ntwo\n\n": "two", "one\r\n two \r\n": "two", "50 %\r100 %": "100 %", "broken \xff\n": "broken",
		long + "\nend": "end", "x" + long: long[:maxStderrEnd],
	} {
		if err := os.WriteFile(filepath.Join(dir, StderrFile), []byte(said), 0o600); err != nil {
			t.Fatal(err)
		}
		if got := Dir(dir).LastStderrLine(); got != want {
			t.Errorf("of %.40q %q, want %q", said, got, want)
		}
	}
	if err := os.WriteFile(filepath.Join(dir, StderrFile), []byte("begin\n"+long+long+"\nend"), 0o600); err != nil {
		t.Fatal(err)
	}
	if got := Dir(dir).StderrEnds(); !strings.HasPrefix(got, "begin\n") || !strings.HasSuffix(got, "\nend") || len(got) > 2*maxStderrEnd+1 {
		t.Errorf("the ends have %d bytes: %.40q", len(got), got)
	}
	if err := os.Rename(filepath.Join(dir, StderrFile), filepath.Join(dir, "else")); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("else", filepath.Join(dir, StderrFile)); err != nil {
		t.Fatal(err)
	}
	if got := Dir(dir).LastStderrLine(); got != "" {
		t.Errorf("of a link %q", got)
	}
}
