package results_test

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"github.com/waza-isolate/waza/evidence"
	"github.com/waza-isolate/waza/internal/golden"
	"github.com/waza-isolate/waza/mcp/finding"
	"github.com/waza-isolate/waza/report/terminal"
	"github.com/waza-isolate/waza/results"
)

func TestCardTable(t *testing.T) {
	r := results.CardRun(t)
	for _, width := range []int{0, 80, 60} {
		var got bytes.Buffer
		if err := terminal.Run(&got, r, width); err != nil {
			t.Fatal(err)
		}
		for _, line := range bytes.Split(got.Bytes(), []byte("\n")) {
			if columns := len([]rune(string(line))); width > 0 && columns > width {
				t.Errorf("%d columns where there are %d: %s", columns, width, line)
			}
		}
		golden.Check(t, fmt.Sprintf("testdata/card-%d.txt", width), got.String())
	}
	r.Tasks = nil
	data, err := evidence.MarshalIndent(r)
	if err != nil {
		t.Fatal(err)
	}
	golden.Check(t, "testdata/card.json", string(data))
}

// At any width no line of a table is longer.
func TestTableWidths(t *testing.T) {
	r := results.CardRun(t)
	for i := range r.Tasks {
		for n := range r.Tasks[i].Runs {
			r.Tasks[i].Runs[n].Outcome, r.Tasks[i].Runs[n].Reason = evidence.ClassAgentError, evidence.ReasonExitCode
		}
	}
	for width := 24; width < 120; width++ {
		var got strings.Builder
		if err := terminal.Run(&got, r, width); err != nil {
			t.Fatal(err)
		}
		tables, _, _ := strings.Cut(got.String(), "tasks pass: ")
		for line := range strings.Lines(tables) {
			if columns := len([]rune(line)) - 1; columns > width {
				t.Errorf("%d columns where there are %d: %s", columns, width, line)
			}
		}
	}
}

// A line under the table says what of a server is worth a look.
func TestConductTable(t *testing.T) {
	for _, width := range []int{0, 80} {
		var got bytes.Buffer
		if err := terminal.Run(&got, results.StrangeRun(t), width); err != nil {
			t.Fatal(err)
		}
		golden.Check(t, fmt.Sprintf("testdata/activity-%d.txt", width), got.String())
	}
}

// So it does of findings, and of a calm server it says nothing.
func TestFindingsInTable(t *testing.T) {
	r := results.Results{Servers: []results.ServerCard{{Name: "calm"}, {Name: "s", Findings: &results.Findings{Places: make([]finding.Finding, 2)}}}}
	var table bytes.Buffer
	if err := terminal.Run(&table, r, 0); err != nil {
		t.Fatal(err)
	}
	if line := "server s: 2 findings in the texts of its tools\n"; !strings.Contains(table.String(), line) || strings.Contains(table.String(), "server calm") {
		t.Errorf("%s", &table)
	}
}

// Long ids give way to a narrow terminal; nothing else does.
func TestNarrowPairs(t *testing.T) {
	a, b := results.Shares(3, 3), results.Shares(3, 0)
	a.Tasks[0].ID, b.Tasks[0].ID = strings.Repeat("long", 50), strings.Repeat("long", 50)
	var table bytes.Buffer
	if err := terminal.Pairs(&table, results.Compare([]results.Entry{a, b}), 90); err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(table.String()) {
		if n := len([]rune(strings.TrimSuffix(line, "\n"))); n > 90 {
			t.Errorf("%d wide: %s", n, line)
		}
	}
	if !strings.Contains(table.String(), "longlong…") && !strings.Contains(table.String(), "…  ") {
		t.Error(table.String())
	}
}
