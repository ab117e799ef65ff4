package main

import (
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/waza-isolate/waza/internal/runtest"
	"github.com/waza-isolate/waza/runner"
)

// What another process is at work on is not graded, and not written to; its page is
// written elsewhere.
func TestFaults_ARunThatIsHeld(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "run")
	made := runtest.New(t, dir, "shop")
	made.Trial("buy", func(*runtest.Trial) {})
	made.End()
	before, err := os.ReadFile(filepath.Join(dir, runner.RunFile))
	if err != nil {
		t.Fatal(err)
	}
	held, err := runner.Hold(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = held.Close() }()
	for _, c := range []struct {
		args []string
		code int
		said string
	}{
		{[]string{"grade", dir}, exitUsage, "waza: " + dir + ": the run is still at work\n"},
		{[]string{"report", dir}, exitUsage, "waza: " + dir + ": the run is still at work: --output writes its page elsewhere\n"},
		{[]string{"report", dir, "-o", filepath.Join(t.TempDir(), "page.html")}, exitOK, ""},
	} {
		s, _, stderr := testState(c.args...)
		if code := s.main(t.Context()); code != c.code || stderr.String() != c.said {
			t.Errorf("%s: exit %d, want %d; it says %q", strings.Join(c.args, " "), code, c.code, stderr)
		}
	}
	s, stdout, _ := testState("report", dir, "--format", "json")
	var results struct {
		Tasks []struct {
			ID string `json:"test_id"`
		} `json:"tasks"`
	}
	code := s.main(t.Context())
	if err := json.Unmarshal(stdout.Bytes(), &results); err != nil || code != exitOK || len(results.Tasks) != 1 || results.Tasks[0].ID != "buy" {
		t.Errorf("report --format json: exit %d, %v: %s", code, err, stdout)
	}
	for _, name := range []string{runner.ReportFile, runner.JUnitFile} {
		if _, err := os.Stat(filepath.Join(dir, name)); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if after, err := os.ReadFile(filepath.Join(dir, runner.RunFile)); err != nil || string(after) != string(before) {
		t.Errorf("run.json is another, or %v", err)
	}
}
