package report

import (
	"slices"
	"strings"
	"testing"
)

// The most important differences come first, and insignificant differences have no number.
func TestComparisonPage(t *testing.T) {
	page := parse(t, comparisonOf(t))
	pairs := page.all("section.compared-pair")
	if len(pairs) != 2 {
		t.Fatalf("%d pairs", len(pairs))
	}
	tables := pairs[0].all("table")
	got := [][]string{tables[0].texts("tbody tr"), tables[1].texts("tbody tr"), tables[2].texts("tbody tr")}
	want := [][]string{
		{"regressed task-0 6/6 0/6 worse -100 points -100 to -45 points"},
		{
			"Pass rate 89% 83% no difference shown -45 to +34 points", "Median time 2.5s 2.5s no difference shown ×1.00 to ×1.00",
			"Tokens a trial 1,118 2,118 worse ×1.89 ×1.88 to ×1.91", "Cost a trial $0.0100 $0.0200 worse ×2.00 ×2.00 to ×2.00",
		},
		{
			"flaky task-3 6/6 4/6 no difference shown -70 to +12 points", "flaky task-5 6/6 5/6 no difference shown -56 to +25 points",
			"fixed task-6 0/6 6/6 better +100 points +45 to +100 points",
		},
	}
	for i := range want {
		if !slices.Equal(got[i], want[i]) {
			t.Errorf("table %d: %q", i, got[i])
		}
	}
	if text := pairs[1].flat(); !strings.Contains(text, "Not alike: eval file was aaaaaa and is 0f0f0f.") || !strings.Contains(text, "left out: 1 task that only the first has") {
		t.Error(text)
	}
}

func TestComparedTasks(t *testing.T) {
	page := parse(t, comparisonOf(t))
	var rows, under []node
	for _, row := range page.all("table.sortable tbody tr") {
		if row.attr("class") == "under" {
			under = append(under, row)
		} else {
			rows = append(rows, row)
		}
	}
	if len(rows) != 9 || len(under) != 4 {
		t.Fatalf("%d rows, %d of them unfold", len(rows), len(under))
	}
	unfolded := under[0].flat()
	for _, want := range []string{"What differs: reason, calls, final output", `inventory find_item {"sku":"</script>"}: tool error`, `inventory find_item {"sku":"BRG"}: ok`, "It costs 12 cents.", "<script>alert(1)</script>"} {
		if !strings.Contains(unfolded, want) {
			t.Errorf("task-0 does not unfold to %q: %s", want, unfolded)
		}
	}
	if links := under[0].attrs("a", "href"); len(links) != 9 || links[4] != "#run/2/trial/task-0/1" {
		t.Errorf("%q", links)
	}
	for _, marked := range under[0].texts("mark") {
		if strings.Contains(marked, "inventory") {
			t.Errorf("what is the same is marked: %q", marked)
		}
	}
	if marked := under[0].texts("mark"); !slices.Contains(marked, "BRG") {
		t.Errorf("what differs is not marked: %q", marked)
	}
	if links := rows[0].attrs(".dots a", "href"); len(links) != 18 || links[0] != "#run/1/trial/task-0/1" || links[17] != "#run/3/trial/task-0/6" {
		t.Errorf("%q", links)
	}
	for i, is := range []string{"|regressed|different|", "|unchanged|", "|unchanged|", "|flaky|different|", "|missing|", "|flaky|regressed|different|"} {
		if got := rows[i].attr("data-is"); got != is {
			t.Errorf("row %d is %s, want %s", i, got, is)
		}
	}
}

// Runs of which only results exist have no links, and a broken one explains why.
func TestComparisonOfResultsAlone(t *testing.T) {
	c, _, _ := compared(t)
	c.Runs[2].Error = "results.json: no such file"
	page := parse(t, Comparison(c, nil, nil, nil))
	if links := page.attrs("main a", "href"); len(links) != 0 {
		t.Errorf("links: %q", links)
	}
	if !strings.Contains(page.flat(), "results.json: no such file") {
		t.Error("what broke is not told")
	}
}
