package pages

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/chromedp/chromedp"

	"github.com/waza-isolate/waza/internal/browsertest"
	"github.com/waza-isolate/waza/internal/dockertest"
	"github.com/waza-isolate/waza/runner"
)

// runLimit is the time limit of a run.
const runLimit = 10 * time.Minute

// order is an eval whose trial uses many features.
var order = filepath.Join("testdata", "order", "eval.yaml")

func example(name string) string { return filepath.Join("..", "..", "examples", name, "eval.yaml") }

// underway is a run that was started.
type underway struct {
	dir  string
	t    *testing.T
	cmd  *exec.Cmd
	said bytes.Buffer
}

// start starts an isolated run of an eval in the new directory dir.
func start(t *testing.T, dir, eval string, args ...string) *underway {
	t.Helper()
	dockertest.Require(t)
	ctx, cancel := context.WithTimeout(context.Background(), runLimit)
	t.Cleanup(cancel)
	args = append([]string{"run", "--isolate", "--run-dir", dir}, args...)
	u := &underway{dir: dir, t: t, cmd: exec.CommandContext(ctx, dockertest.Waza(t), append(args, eval)...)}
	u.cmd.Stdout, u.cmd.Stderr = &u.said, &u.said
	u.cmd.Cancel = func() error { return u.cmd.Process.Signal(os.Interrupt) }
	u.cmd.WaitDelay = time.Minute
	if err := u.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	return u
}

// end waits for the run to end and checks that it leaves no objects on the engine.
func (u *underway) end() {
	u.t.Helper()
	if err := u.cmd.Wait(); err != nil {
		u.t.Fatalf("%v\n%s", err, u.said.String())
	}
	record, err := runner.ReadRecord(u.dir)
	if err != nil {
		u.t.Fatal(err)
	}
	dockertest.NoObjects(u.t, dockertest.Engine(u.t), record.ID)
}

// views are the window sizes and color schemes that each page is checked in. Colors are the same at
// every size.
var views = map[string]browsertest.View{
	"wide":        {Width: 1600, Height: 1000},
	"middle":      {Width: 800, Height: 1000, Still: true},
	"narrow-dark": {Width: 360, Height: 740, Dark: true},
}

// pictured maps names of screenshots to the heading to scroll to.
var pictured = map[string]string{"order": "Timeline"}

// look checks that a page fits and is accessible in every view, and takes screenshots
// called name.
func look(t *testing.T, p *browsertest.Page, name string) {
	t.Helper()
	for view, v := range views {
		t.Run(view, func(t *testing.T) {
			p := p.For(t)
			p.See(v)
			p.Fits()
			p.Accessible()
			if heading, ok := pictured[name]; ok {
				browsertest.Eval[bool](p, `[...document.querySelectorAll("h2")].filter(h => h.offsetParent && h.textContent === "`+heading+`").every(h => !h.scrollIntoView())`)
			}
			browsertest.Eval[any](p, `document.activeElement.blur(), 0`)
			p.Picture(name + "-" + view)
		})
	}
}

// handle runs each of hands on a page.
func handle(t *testing.T, p *browsertest.Page, hands map[string]func(*testing.T, *browsertest.Page)) {
	t.Helper()
	p.See(browsertest.View{})
	for name, hand := range hands {
		t.Run(name, func(t *testing.T) { hand(t, p.For(t)) })
	}
}

type hands = map[string]func(*testing.T, *browsertest.Page)

// TestRealRuns runs evals, watches one in progress, and opens their reports and their pages
// on the server.
func TestRealRuns(t *testing.T) {
	dir := t.TempDir()
	b := browsertest.Start(t)
	address := served(t, dir)
	t.Run("at work", func(t *testing.T) { watch(t, b, address, filepath.Join(dir, "kept")) })
	start(t, filepath.Join(dir, "mcp-eval"), example("mcp-eval")).end()
	start(t, filepath.Join(dir, "real-servers"), example("real-servers")).end()
	start(t, filepath.Join(dir, "order"), order).end()
	for _, c := range []struct {
		name, run, at string
		hands         hands
	}{
		{"overview", "real-servers", "", hands{"walks": walks, "sorts": sorts, "folds": folds, "prints": prints, "filters": func(t *testing.T, p *browsertest.Page) { filters(t, p, "thinking", 1) }}},
		{"servers", "real-servers", "#servers", hands{"walks": walks}},
		{"trial", "real-servers", "#trial/error/1", hands{"walks": walks, "folds": folds, "searches": searches("/etc/passwd"), "copies": copies, "JSON": jsonFolds}},
		{"small-overview", "mcp-eval", "", hands{"sorts": sorts}},
		{"order", "order", "#trial/reserve/1", hands{"walks": walks, "searches": searches("BRG-6240")}},
	} {
		t.Run(c.name, func(t *testing.T) {
			report, _ := written(t, filepath.Join(dir, c.run))
			p := b.Open(t, file(report)+c.at, browsertest.View{})
			if c.at == "" { // otherwise the focus starts at the address's target
				skips(t, p)
			}
			handle(t, p, c.hands)
			look(t, p, c.name)
			p.Quiet()
		})
	}
	for _, c := range []struct {
		name, path string
		hands      hands
	}{
		{"list", "/", hands{"walks": walks, "sorts": sorts, "compares": compares}},
		{"served-overview", "/runs/mcp-eval/overview", hands{"sorts": sorts}},
		{"served-trial", "/runs/mcp-eval/trial/report/1", hands{"copies": copies}},
		{"comparison", "/compare?run=kept&run=mcp-eval", hands{"walks": walks}},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := b.Open(t, address, browsertest.View{})
			p.Do(chromedp.Navigate(browsertest.Eval[string](p, "location.origin") + c.path))
			skips(t, p)
			look(t, p, c.name)
			handle(t, p, c.hands)
			p.Quiet()
		})
	}
	t.Run("without script", func(t *testing.T) {
		report, _ := written(t, filepath.Join(dir, "mcp-eval"))
		readable(t, b, file(report))
	})
}

// watch follows a run in progress on one page until the run ends.
func watch(t *testing.T, b *browsertest.Browser, address, dir string) {
	run := start(t, dir, example("mcp-eval"), "--task", "price", "--keep")
	p := b.Open(t, address, browsertest.View{})
	overview := browsertest.Eval[string](p, "location.origin") + "/runs/" + filepath.Base(dir) + "/overview"
	dockertest.Await(t, runLimit, "the run has begun", func() bool { return runner.Held(dir) })
	p.Do(chromedp.Navigate(overview))
	p.Await(now + `.includes("collecting")`)
	hold(p)
	p.Fits()
	p.Accessible()
	p.Picture("at-work")
	p.Do(chromedp.Reload())
	if err := run.cmd.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	p.Await(`document.readyState === "complete" && document.querySelector("main h1") && !document.querySelector(".now")`)
	run.end()
	p.Quiet()
}

// prints checks the print layout of a page.
func prints(t *testing.T, p *browsertest.Page) {
	p.See(browsertest.View{Width: 720, Height: 1000, Paper: true})
	p.Fits()
	p.Picture("printed")
	if size := len(p.PDF()); size < 10_000 {
		t.Errorf("printed in %d bytes", size)
	}
	p.See(browsertest.View{})
}

// compares selects two runs of the list and opens their comparison.
func compares(t *testing.T, p *browsertest.Page) {
	p.Click(`input[name=run][value=kept]`)
	p.Click(`input[name=run][value=mcp-eval]`)
	p.Click(`form[action="/compare"] button`)
	p.Await(`location.pathname === "/compare" && document.querySelector("h1").textContent.includes("Comparison")`)
}

// readable checks that a report works by its links if scripts are disabled.
func readable(t *testing.T, b *browsertest.Browser, address string) {
	p := b.Open(t, address, browsertest.View{NoScript: true})
	const seen = `[...document.querySelectorAll(".page")].filter(e => e.checkVisibility()).map(e => e.id).join()`
	if got := browsertest.Eval[string](p, seen); got != "overview" {
		t.Errorf("the pages %q are seen, want the overview", got)
	}
	p.Click(`a[href="#trial/report/1"]`)
	if got := browsertest.Eval[string](p, seen); got != "trial/report/1" {
		t.Errorf("the pages %q are seen, want the trial's", got)
	}
	if got := browsertest.Eval[bool](p, `[...document.querySelectorAll(".scripted-only")].some(e => e.checkVisibility())`); got {
		t.Error("what the script makes work is shown without it")
	}
	p.Quiet()
}
