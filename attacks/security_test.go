package attacks

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/waza-isolate/waza/internal/golden"
)

const (
	document   = "../SECURITY.md"
	tableBegin = "<!-- The rest is written by go test ./attacks -run TestDocument -update. -->\n\n"
)

// SECURITY.md lists the attacks that there are, and its figures are of as many.
func TestDocument(t *testing.T) {
	data, err := os.ReadFile(document)
	if err != nil {
		t.Fatal(err)
	}
	before, _, found := strings.Cut(string(data), tableBegin)
	if !found {
		t.Fatalf("%s lacks the line %q", document, strings.TrimSpace(tableBegin))
	}
	whole := before + tableBegin + Table()
	golden.Check(t, document, whole)
	succeeding := 0
	for _, a := range All() {
		if a.Without.Kept == "" {
			succeeding++
		}
	}
	for _, figure := range []string{
		fmt.Sprintf("attacks tried %d, succeeded 0;", len(All())),
		fmt.Sprintf("defences taken out %d, in %d builds; attacks that succeeded then %d\n", len(removable()), len(builds()), succeeding),
	} {
		if !strings.Contains(before, figure) {
			t.Errorf("%s lacks %q: its figures are of other attacks; run make test-attacks and put them there", document, figure)
		}
	}
}
