package terminal_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/waza-isolate/waza/internal/text"
	"github.com/waza-isolate/waza/report/terminal"
	"github.com/waza-isolate/waza/results"
)

// TestPairsFit checks that tables of a comparison fit into 80 columns. Intervals that do
// not fit are omitted.
func TestPairsFit(t *testing.T) {
	t.Parallel()
	var entries []results.Entry
	for _, name := range []string{"injection-none", "injection-gullible"} {
		file, err := os.Open(filepath.Join("../../test/frozen/testdata/runs", name, "results.json"))
		if err != nil {
			t.Fatal(err)
		}
		outline, err := results.ReadOutline(file)
		if err != nil {
			t.Fatal(err)
		}
		if err := file.Close(); err != nil {
			t.Fatal(err)
		}
		entries = append(entries, results.Entry{Outline: outline})
	}
	for _, width := range []int{80, 120} {
		var out strings.Builder
		if err := terminal.Pairs(&out, results.Compare(entries), width); err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(out.String()) {
			if columns := text.Columns(strings.TrimSuffix(line, "\n")); columns > width && !strings.HasPrefix(line, "Too few trials") {
				t.Errorf("%d columns of %d: %s", columns, width, line)
			}
		}
		if _, table, _ := strings.Cut(out.String(), "\nCHANGE"); strings.Contains(table, "DIFFERENCE …\n") != (width == 80) {
			t.Errorf("in %d columns:\n%s", width, table)
		}
	}
}
