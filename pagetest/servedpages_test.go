package pagetest

import (
	"fmt"
	"path/filepath"
	"testing"

	"github.com/waza-isolate/waza/evidence"
	"github.com/waza-isolate/waza/internal/browsertest"
	"github.com/waza-isolate/waza/internal/runtest"
)

func made(t *testing.T, dir, id, says string) {
	t.Helper()
	r := runtest.New(t, filepath.Join(dir, id), "shop")
	for _, task := range []string{"buy", "sell"} {
		r.Trial(task, func(trial *runtest.Trial) {
			trial.Serve("stock", runtest.Tool{Name: "price"})
			trial.Call("stock", "price", map[string]any{"sku": "BRG"}, "12 cents")
			trial.Info.FinalOutput = says
			trial.Write(evidence.StdoutFile, says)
			trial.Write(evidence.StderrFile, "")
			trial.Grade("told", "text", `{"contains": ["12 cents"]}`)
		})
	}
	r.End()
}

// The page of a run in progress updates itself, and shows hostile text as text.
func TestServedPages(t *testing.T) {
	dir := runtest.Dir(t)
	made(t, dir, "first", "It costs 12 cents.")
	made(t, dir, "second", "No idea.")
	run := runtest.Begin(t, dir, "third <b>", 4)
	run.Step(1, evidence.PhaseDone, evidence.ClassPass)
	address := served(t, dir)
	b := browsertest.Start(t)
	p := b.Open(t, address, browsertest.View{})
	t.Run("list", func(t *testing.T) { look(t, p.For(t), "serve-list") })
	p.See(browsertest.View{})
	live(t, p, run)
}

// The page of a long trial shows a window around the call in its address, and searches the
// whole trial.
func TestServedWindows(t *testing.T) {
	dir := runtest.Dir(t)
	longTrial(t, filepath.Join(dir, "long"), 5_500)
	p := browsertest.Start(t).Open(t, served(t, dir), browsertest.View{})
	p.Await(`location.search === ""`)
	browsertest.Eval[any](p, `location.href = "/runs/long/trial/long/1?at=call-5321#trial/long/1/call-5321", 0`)
	p.Await(`document.readyState === "complete" && document.getElementById("trial/long/1/call-5321")?.matches(":target")`)
	p.Accessible()
	p.Fits()
	p.Click(".windows input")
	p.Type("notes.txt 4711")
	p.Click(".windows button")
	p.Await(`document.querySelector(".windows")?.textContent.includes("Steps 1 to 1 of 1 with") && document.querySelector(".row")?.textContent.includes("4711")`)
	p.Quiet()
}

// live checks that an open page follows the progress of a run.
func live(t *testing.T, p *browsertest.Page, run *runtest.Live) {
	p.Click(`a[href*="third"]`)
	p.Click(".now h2")
	p.Await(`document.querySelector('[data-now="done"]')?.textContent === "1"`)
	run.Step(2, evidence.PhaseAgent, "")
	run.Frames(2, evidence.Frame{Server: "stock", Conn: "c", Dir: evidence.ToServer, Raw: []byte(`{"id":1,"method":"tools/call","params":{"name":"<img src=x onerror=alert(1)>\u202e"}}`)})
	p.Await(`document.querySelector('[data-now="working"]').textContent.includes("stock <img src=x onerror=alert(1)>\\u{202E}")`)
	run.Tell(evidence.Progress{Task: "buy", Number: 3, Attempt: 1, Phase: evidence.PhaseDone, Class: evidence.ClassFail, Message: "<script>alert(1)</script>"})
	p.Await(`document.querySelector('[data-now="ended"]').textContent.includes("<script>")`)
	p.Await(`document.querySelector('[data-now="ended"] a').getAttribute("href") === "/runs/third%20%3Cb%3E/trial/buy/3"`)
	t.Run("live", func(t *testing.T) { look(t, p.For(t), "serve-live") })
	unseen(p, run)
	run.Interrupt()
	p.Await(`document.querySelector('[data-now="state"]').textContent === "interrupted"`)
	p.Await(`document.querySelector('[data-now="told"]').textContent.includes("Nobody is at work")`)
	p.Quiet()
}

// unseen hides the page for a while: it stops listening for events, and catches up when it
// is visible again.
func unseen(p *browsertest.Page, run *runtest.Live) {
	hidden := func(yes bool) {
		p.Await(fmt.Sprintf(`(Object.defineProperty(document, "hidden", {value: %t, configurable: true}), document.dispatchEvent(new Event("visibilitychange")))`, yes))
	}
	p.Await(`((close) => { EventSource.prototype.close = function () { document.body.dataset.closed = "yes"; close.call(this); }; return true; })(EventSource.prototype.close)`)
	hidden(true)
	p.Await(`document.body.dataset.closed === "yes"`)
	run.Step(2, evidence.PhaseDone, evidence.ClassPass)
	hidden(false)
	p.Await(`document.querySelector('[data-now="done"]').textContent === "3"`)
}
