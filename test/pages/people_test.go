package pages

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/waza-isolate/waza/evidence"
	"github.com/waza-isolate/waza/internal/browsertest"
	"github.com/waza-isolate/waza/internal/runtest"
)

// widths are those of a phone, a tablet and a screen.
var widths = map[string]browsertest.View{
	"390":  {Width: 390, Height: 844, Still: true},
	"1024": {Width: 1024, Height: 900, Still: true},
	"1440": {Width: 1440, Height: 900, Still: true},
}

const wrongArgument = "reserve_item quantity: 40, expected 1–5 (call 1)."

// shopRun writes a run in which trials fail in many ways: one task in the same way in all four of its trials.
func shopRun(t testing.TB, dir string, isolated bool) {
	t.Helper()
	run := runtest.New(t, dir, "shop")
	run.Record.Isolated = isolated
	serve := func(trial *runtest.Trial, quantity int, says string) {
		trial.Event(evidence.Event{Kind: "dns", Where: "agent", Message: "stock"})
		trial.Serve("stock", runtest.Tool{Name: "reserve_item"})
		trial.Call("stock", "reserve_item", map[string]any{"sku": "BRG-6204", "quantity": quantity}, "reserved")
		trial.Info.FinalOutput = says
		trial.Grade("reserved", "mcp_compliance", `{"server": "stock", "expect_tools_used": [{"tool": "reserve_item", "args": {"values": {"quantity": {"range": [1, 5]}}}}]}`)
	}
	for range 4 {
		run.Trial("reserve-bearings", func(trial *runtest.Trial) { serve(trial, 40, "I have reserved 40 bearings.") })
		run.Trial("reserve-hinges", func(trial *runtest.Trial) { serve(trial, 3, "Three hinges are reserved for you.") })
	}
	for _, end := range []struct {
		task   string
		class  evidence.Class
		reason evidence.Reason
		why    string
	}{
		{"exits", evidence.ClassAgentError, evidence.ReasonExitCode, "the agent exited with code 3: no key"},
		{"fills", evidence.ClassAgentError, evidence.ReasonDisk, "the agent's container filled /home/agent"},
		{"sleeps", evidence.ClassTimeout, evidence.ReasonTimeLimit, "the agent ran longer than 60s"},
		{"breaks", evidence.ClassServerError, evidence.ReasonServer, "server stock exited with code 1"},
		{"away", evidence.ClassInfra, evidence.ReasonEngine, "the engine went away"},
	} {
		run.Trial(end.task, func(trial *runtest.Trial) {
			trial.Info.Class, trial.Info.Reason, trial.Info.Message = end.class, end.reason, end.why
			trial.Grade("told", "text", `{"contains": ["reserved"]}`)
		})
	}
	run.End()
}

// A page says a reason once, in words, and fits narrow windows.
func TestPageForPeople(t *testing.T) {
	dir := runtest.Dir(t)
	shopRun(t, dir, true)
	path, _ := written(t, dir)
	p := browsertest.Start(t).Open(t, file(path), browsertest.View{})
	overview := browsertest.Eval[string](p, `document.getElementById("overview").textContent`)
	for _, reason := range []string{wrongArgument, "the agent exited with code 3: no key", "the agent ran longer than 60s", "server stock exited with code 1", "the engine went away"} {
		if n := strings.Count(overview, reason); n != 1 {
			t.Errorf("%q is said %d times", reason, n)
		}
	}
	for _, word := range []string{"all 4", "agent crashed", "agent out of disk space", "server crashed", "95% interval"} {
		if !strings.Contains(overview, word) {
			t.Errorf("the page lacks %q", word)
		}
	}
	for _, word := range []string{"agent_error", "server_error", "exit_code"} {
		if strings.Contains(overview, word) {
			t.Errorf("the page says %s", word)
		}
	}
	for name, view := range widths {
		t.Run(name, func(t *testing.T) {
			p := p.For(t)
			p.See(view)
			p.Fits()
			p.Accessible()
			p.Picture("people-" + name)
			if scrolls := browsertest.Eval[[]string](p, scrolling); len(scrolls) > 0 {
				t.Errorf("scrolled sideways: %q", scrolls)
			}
			answer := browsertest.Eval[bool](p, `[...document.querySelectorAll("#overview .answer > span")].filter(e => e.textContent.includes("Three hinges")).some(e => e.checkVisibility() && e.getBoundingClientRect().right <= innerWidth)`)
			if !answer {
				t.Error("the answers are not seen")
			}
			if cards := browsertest.Eval[int](p, labelled); (cards > 20) != (view.Width == 390) {
				t.Errorf("%d cells have the names of their columns beside them", cards)
			}
			if lines := browsertest.Eval[float64](p, reasonLines); lines > 1.5 && view.Width > 1000 {
				t.Errorf("a reason has %.1f lines", lines)
			}
		})
	}
	p.Quiet()
}

// JavaScript expressions: tables of the visible page that scroll sideways, the number of cells with labels, and the
// number of lines of the reason why a call's arguments are wrong.
const (
	scrolling   = `[...document.querySelectorAll(".page.seen .table")].filter(e => e.checkVisibility() && e.scrollWidth > e.clientWidth + 1).map(e => e.getAttribute("aria-label"))`
	labelled    = `[...document.querySelectorAll(".page.seen .tasks td[data-label]")].filter(e => getComputedStyle(e, "::before").content !== "none" && e.checkVisibility()).length`
	reasonLines = `(e => e.getBoundingClientRect().height / parseFloat(getComputedStyle(e).lineHeight))([...document.querySelectorAll(".page.seen .why")].find(e => e.textContent.includes("expected 1–5")))`
)

// What is the same for all rows of a table, because it is not known, takes no column, and events that are expected
// share a row.
func TestFoldedPage(t *testing.T) {
	dir := runtest.Dir(t)
	shopRun(t, dir, true)
	path, _ := written(t, dir)
	p := browsertest.Start(t).Open(t, file(path)+"#servers", browsertest.View{})
	if said := browsertest.Eval[string](p, `document.getElementById("servers").innerText`); strings.Contains(said, "n/a") || !strings.Contains(said, "95% interval") {
		t.Errorf("the page of servers:\n%s", said)
	}
	browsertest.Eval[any](p, `location.hash = "#trial/reserve-hinges/1", 0`)
	p.Await(trial + ` !== undefined`)
	if rows := browsertest.Eval[int](p, `(`+trial+`).querySelectorAll(".row.event").length`); rows > 4 {
		t.Errorf("events have %d rows", rows)
	}
	p.Quiet()
}

// The sandbox of a trial is offered to be kept only where there was one.
func TestKeepIsOfferedForSandboxes(t *testing.T) {
	b := browsertest.Start(t)
	for _, isolated := range []bool{true, false} {
		dir := runtest.Dir(t)
		shopRun(t, dir, isolated)
		path, _ := written(t, dir)
		p := b.Open(t, file(path)+"#trial/exits/1", browsertest.View{})
		p.Await(trial + ` !== undefined`)
		said := browsertest.Eval[string](p, `(`+trial+`).querySelector(".setup").textContent`)
		if !strings.Contains(said, "waza rerun") || strings.Contains(said, "--keep") != isolated || strings.Contains(said, "sandbox") != isolated {
			t.Errorf("isolated %t: %s", isolated, said)
		}
		p.Quiet()
	}
}

// A comparison says once that there are too few trials, says what its intervals are, and fits narrow windows.
func TestComparedPageForPeople(t *testing.T) {
	dir := runtest.Dir(t)
	made(t, dir, "first", "It costs 12 cents.")
	made(t, dir, "second", "No idea.")
	path := filepath.Join(dir, "both.html")
	writeReport(t, path, filepath.Join(dir, "first"), filepath.Join(dir, "second"))
	p := browsertest.Start(t).Open(t, file(path), browsertest.View{})
	said := browsertest.Eval[string](p, `document.getElementById("compare").innerText`)
	if n := strings.Count(strings.ToLower(said), "too few trials"); n != 1 {
		t.Errorf("too few trials %d times:\n%s", n, said)
	}
	for word, want := range map[string]bool{"95% interval": true, "n/a": false, "Tokens": false, "Cost": false} {
		if strings.Contains(said, word) != want {
			t.Errorf("%q: not %t in\n%s", word, want, said)
		}
	}
	for name, view := range widths {
		t.Run(name, func(t *testing.T) {
			p := p.For(t)
			p.See(view)
			p.Fits()
			p.Accessible()
			p.Picture("people-compared-" + name)
			if scrolls := browsertest.Eval[[]string](p, scrolling); len(scrolls) > 0 {
				t.Errorf("scrolled sideways: %q", scrolls)
			}
		})
	}
	p.Quiet()
}
