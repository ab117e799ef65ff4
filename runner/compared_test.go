package runner

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"

	"github.com/waza-isolate/waza/evidence"
	"github.com/waza-isolate/waza/internal/text"
	"github.com/waza-isolate/waza/results"
)

// The entry of a run has its results and, from its record, what it was made with.
func TestReadEntry(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir, record := aRun(t)
		record.Waza, record.Eval.SHA256, record.Inputs = "1.2.0", "0123456789abcdef", map[string]string{"tasks/buy.yaml": "ab"}
		record.Images = evidence.ImageRecords{"debian:bookworm-slim": {ID: "sha256:fedcba9876543210"}}
		write := func() {
			t.Helper()
			if err := record.Write(dir); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := WriteResults(dir, record); err != nil {
			t.Fatal(err)
		}
		write()
		before := read(t, dir)
		if len(before.Tasks) != 1 || len(before.Tasks[0].Trials) != 3 || before.Path != dir {
			t.Errorf("%+v", before)
		}
		if again := read(t, filepath.Join(dir, ResultsFile)); !slices.Equal(before.Made, again.Made) {
			t.Errorf("by its file: %v, by its directory: %v", again.Made, before.Made)
		}

		record.Waza, record.Eval.SHA256, record.Inputs["tasks/buy.yaml"] = "1.3.0", "123", "cd"
		record.Images["debian:bookworm-slim"] = evidence.ImageRecord{ID: "sha256:0000"}
		write()
		var what []string
		for _, u := range results.Compare([]results.Entry{before, read(t, dir)}).Pairs[0].Unlike {
			what = append(what, u.What)
		}
		if diff := cmp.Diff([]string{"eval file", "waza", "file tasks/buy.yaml", "image debian:bookworm-slim"}, what); diff != "" {
			t.Error(diff)
		}

		atResults := filepath.Join(dir, ResultsFile)
		if err := os.Rename(atResults, atResults+".gone"); err != nil {
			t.Fatal(err)
		}
		if _, err := ReadEntry(dir); err == nil || !strings.HasSuffix(err.Error(), dir+" has not ended: it has no results.json; complete it with waza run --resume "+text.ShellWord(dir)) {
			t.Errorf("a run that was killed: %v", err)
		}
		if err := os.Rename(atResults+".gone", atResults); err != nil {
			t.Fatal(err)
		}

		if err := os.Truncate(filepath.Join(dir, RunFile), 20); err != nil {
			t.Fatal(err)
		}
		if half := read(t, dir); half.Made != nil || len(half.Tasks) != 1 {
			t.Errorf("with half a record: %+v", half)
		}
	})
}

func read(t *testing.T, path string) results.Entry {
	t.Helper()
	entry, err := ReadEntry(path)
	if err != nil {
		t.Fatal(err)
	}
	return entry
}
