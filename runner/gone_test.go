package runner

import (
	"os"
	"path/filepath"
	"slices"
	"testing"
	"testing/synctest"

	"github.com/waza-isolate/waza/evidence"
)

// Of a trial that is gone the trial is named, and of one that lacks a file the file; what
// is not evidence is not missed.
func TestGone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir, record, summary := reportedRun(t)
		record.Files[evidence.ProgressFile] = "recorded"
		at := func(name ...string) string { return filepath.Join(append([]string{dir, "trials", "buy"}, name...)...) }
		for _, gone := range []string{at("1"), at("2", evidence.EventsFile), at("2", evidence.VerdictsFile), filepath.Join(dir, JUnitFile)} {
			if err := os.RemoveAll(gone); err != nil {
				t.Fatal(err)
			}
		}
		if got, want := record.Files.Gone(dir), []string{"trials/buy/1", "trials/buy/2/" + evidence.EventsFile}; !slices.Equal(got, want) {
			t.Errorf("gone are %q, want %q", got, want)
		}
		if changed, err := record.Files.Changed(dir); err != nil || len(changed) > 0 {
			t.Errorf("changed are %q, %v: what is gone is not", changed, err)
		}
		if emptied, err := record.Files.Emptied(dir); err != nil || emptied || len(summary.Tasks) == 0 {
			t.Errorf("%v, %v: it has a trial", emptied, err)
		}
		if err := os.RemoveAll(at()); err != nil {
			t.Fatal(err)
		}
		if emptied, err := record.Files.Emptied(dir); err != nil || !emptied {
			t.Errorf("%v, %v: it has no trial any more", emptied, err)
		}
	})
}
