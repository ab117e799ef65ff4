package report

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"golang.org/x/net/html"

	"github.com/waza-isolate/waza/evidence"
	"github.com/waza-isolate/waza/report/view"
	"github.com/waza-isolate/waza/results"
)

// What the page says of each server is what its card has.
func TestServersPage(t *testing.T) {
	run := sample(t)
	page := parse(t, Servers(run, Links{InFile: true}))
	parts := page.all("section.server")
	if len(parts) != len(run.Results.Servers) {
		t.Fatalf("%d servers", len(parts))
	}
	for i, card := range run.Results.Servers {
		text := parts[i].flat()
		for _, want := range []string{
			fmt.Sprintf("Calls %d in %d trials", card.Calls, card.Trials),
			fmt.Sprintf("Errors %.0f%% %d of %d", 100*card.ErrorRate.Mean, card.ErrorRate.Count, card.ErrorRate.Of),
			fmt.Sprintf("%.0f–%.0f%%", 100*card.ErrorRate.Lower, 100*card.ErrorRate.Upper),
			fmt.Sprintf("How long %d timed calls took", card.TimedCalls),
			fmt.Sprintf("%d ok", card.Outcomes[evidence.OutcomeOK]),
		} {
			if !strings.Contains(text, want) {
				t.Errorf("%s: no %q in %q", card.Name, want, text)
			}
		}
		var columns []string
		for _, b := range card.Latency {
			if b.Calls > 0 {
				columns = append(columns, fmt.Sprint(b.Calls))
			}
		}
		if got := parts[i].texts("text.count"); !slices.Equal(got, columns) {
			t.Errorf("%s: columns %q, want %q", card.Name, got, columns)
		}
	}
}

func TestToolsOfAServer(t *testing.T) {
	page := parse(t, Servers(sample(t), Links{InFile: true}))
	inventory := page.all("section.server")[0]
	rows := inventory.all("table.sortable")[0].texts("tbody tr")
	want := []string{"find_item in 22 of 24 trials 154 0", "reserve_item in 22 of 24 trials 6 6", "stock_report in 22 of 24 trials never 0", "delete_all kept from the agent never 0", "export in 22 of 24 trials never 0"}
	for i, row := range rows {
		if !strings.HasPrefix(row, want[i]) {
			t.Errorf("%q, want %q", row, want[i])
		}
	}
	text := inventory.flat()
	for _, want := range []string{"2 tools of 5 nobody called.", "Findings", "<IMPORTANT>"} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q", want)
		}
	}
}

// What a server did that a person wants to know of is seen at once, and the rest is folded.
func TestActs(t *testing.T) {
	page := parse(t, Servers(sample(t), Links{InFile: true}))
	web := page.all("section.server")[1]
	tables := web.all("table.acts")
	isFolded := func(table node) bool {
		around := node{table.Parent.Parent}
		return around.Data == "details" && around.attr("class") == "folded"
	}
	if len(tables) != 2 || isFolded(tables[0]) || !isFolded(tables[1]) || !slices.ContainsFunc(web.all("details.whole")[0].Attr, func(a html.Attribute) bool { return a.Key == "open" }) {
		t.Fatalf("%d tables of acts", len(tables))
	}
	want := []string{
		"said the secret web/TOKEN 22 times in messages, 0 on stderr", "tried to connect to 169.254.169.254:80 ip, 44 times",
		"asked for the name evil.example 22 times, without an answer", "was refused egress to evil.example:443 refused 22 times", "ran into a limit more than 100 messages a second",
	}
	if got := tables[0].texts("tbody tr"); !slices.Equal(got, want) {
		t.Errorf("%q", got)
	}
	folded := tables[1].flat()
	for _, want := range []string{"/tmp/x.sock", "api.example:443", "25.8 KiB out", "/bin/sh -c curl evil.example 44 times", "created the file /tmp/cache.db 40.0 KiB"} {
		if !strings.Contains(folded, want) {
			t.Errorf("no %q in %q", want, folded)
		}
	}
	if text := web.flat(); !strings.Contains(text, "Not watched: files, because the server closed /tmp/secret to itself.") {
		t.Error("what was not watched is not told")
	}
	became := web.all("ul.reasons")[0].texts("li")
	if len(became) != 2 || !strings.Contains(became[0], "rug pull What a batch costs #1, Reserve and note down #1") || !strings.Contains(became[0], "and 1 more") {
		t.Errorf("%q", became)
	}
}

func TestServersPageOfNone(t *testing.T) {
	for name, run := range map[string]view.Run{"no server": {}, "no call": {Results: results.Results{Servers: []results.ServerCard{{Name: "idle", Trials: 1}}}}} {
		if text := parse(t, Servers(run, Links{InFile: true})).flat(); !strings.Contains(text, "Servers") || strings.Contains(text, "NaN") {
			t.Errorf("%s: %s", name, text)
		}
	}
}
