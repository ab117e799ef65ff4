package pages

import (
	"path/filepath"
	"testing"

	"github.com/chromedp/chromedp"

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

// live checks that an open page follows the progress of a run, by loading itself again.
func live(t *testing.T, p *browsertest.Page, run *runtest.Live) {
	p.Click(`a[href*="third"]`)
	p.Click(".now h2")
	p.Await(now + `.includes("1 of 4 trials have ended")`)
	run.Step(2, evidence.PhaseAgent, "")
	run.Frames(2, evidence.Frame{Server: "stock", Conn: "c", Dir: evidence.ToServer, Raw: []byte(`{"id":1,"method":"tools/call","params":{"name":"<img src=x onerror=alert(1)>\u202e"}}`)})
	p.Await(now + `.includes("stock <img src=x onerror=alert(1)>\\u{202E}")`)
	run.Tell(evidence.Progress{Task: "buy", Number: 3, Attempt: 1, Phase: evidence.PhaseDone, Class: evidence.ClassFail, Message: "<script>alert(1)</script>"})
	p.Await(now + `.includes("<script>") && document.querySelector(".now li a").getAttribute("href") === "/runs/third%20%3Cb%3E/trial/buy/3"`)
	t.Run("live", func(t *testing.T) {
		p := p.For(t)
		hold(p)
		look(t, p, "serve-live")
		p.Do(chromedp.Reload())
	})
	run.Interrupt()
	p.Await(`document.readyState === "complete" && document.querySelector("main h1") && !document.querySelector(".now")`)
	p.Quiet()
}

// now is the text of the part of a page that changes while a run is in progress.
const now = `(document.querySelector(".now")?.textContent ?? "")`

// hold keeps a page from loading itself again.
func hold(p *browsertest.Page) { p.Await(`window.stop() === undefined`) }
