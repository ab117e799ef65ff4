package pages

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"

	"github.com/waza-isolate/waza/internal/browsertest"
	"github.com/waza-isolate/waza/internal/runtest"
	"github.com/waza-isolate/waza/runner"
)

const (
	manyCalls  = 10_000
	manyTrials = 1_000
)

// longTrial writes a run of one trial with that many calls to three servers. Some calls
// fail, and one in a hundred has a response of 100 KiB.
func longTrial(t testing.TB, dir string, calls int) {
	t.Helper()
	run := runtest.New(t, dir, "long")
	run.Trial("long", func(trial *runtest.Trial) {
		servers := []string{"files", "search", "web"}
		for _, server := range servers {
			trial.Serve(server, runtest.Tool{Name: "look", Description: "Looks something up."}, runtest.Tool{Name: "change"})
		}
		for i := range calls {
			server, arguments := servers[i%len(servers)], map[string]any{"number": i, "path": fmt.Sprintf("/data/%04d/notes.txt", i), "deep": []any{map[string]any{"a": nil, "b": true}}}
			switch {
			case i%37 == 5:
				trial.Fail(server, "change", arguments, "no such file")
			case i%100 == 50:
				trial.Call(server, "look", arguments, strings.Repeat(fmt.Sprintf("line %d of a long answer\n", i), 100<<10/25))
			default:
				trial.Call(server, "look", arguments, fmt.Sprintf(`{"found": %d, "what": "an answer of ordinary size, as servers give it"}`, i))
			}
		}
		trial.Info.FinalOutput = "done"
		trial.Grade("used", "mcp_compliance", `{"server": "files", "expect_tools_used": ["look"], "max_tool_errors": 0}`)
	})
	run.End()
}

// broadRun writes a run of that many trials of twenty tasks. One in seven fails.
func broadRun(t testing.TB, dir string, trials int) {
	t.Helper()
	run := runtest.New(t, dir, "broad")
	for i := range trials {
		run.Trial(fmt.Sprintf("task-%02d", i%20), func(trial *runtest.Trial) {
			trial.Serve("inventory", runtest.Tool{Name: "find_item", Description: "Looks an item up."})
			for n := range 3 {
				trial.Call("inventory", "find_item", map[string]any{"sku": n}, "found")
			}
			if trial.Info.FinalOutput = "found"; i%7 == 3 {
				trial.Info.FinalOutput = "nothing"
			}
			trial.Grade("answer", "text", `{"contains": ["found"]}`)
		})
	}
	run.End()
}

// written writes the report of the run in dir and returns its path and size.
func written(t testing.TB, dir string) (path string, size int64) {
	t.Helper()
	path = filepath.Join(dir, "report.html")
	return path, writeReport(t, path, dir)
}

// writeReport writes the report of runs to a file and returns its size.
func writeReport(t testing.TB, path string, dirs ...string) int64 {
	t.Helper()
	file, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := runner.WriteReport(file, dirs); err != nil {
		t.Fatal(err)
	}
	info, err := file.Stat()
	if err != nil {
		t.Fatal(err)
	}
	if err := file.Close(); err != nil {
		t.Fatal(err)
	}
	return info.Size()
}

// Size limits of reports, in bytes.
const (
	longReport  = 32 << 20
	broadReport = 96 << 20
)

// The report of a trial of 10,000 calls is usable.
func TestLongTrial(t *testing.T) {
	dir := runtest.Dir(t)
	longTrial(t, dir, manyCalls)
	path, size := written(t, dir)
	t.Logf("%d calls: %d bytes", manyCalls, size)
	if size > longReport {
		t.Errorf("the report has %d bytes", size)
	}
	p := browsertest.Start(t).Open(t, file(path)+"#trial/long/1", browsertest.View{})
	t.Logf("first paint after %s", p.FirstPaint())
	if shown := browsertest.Eval[int](p, steps); shown < manyCalls {
		t.Errorf("%d steps are shown of %d calls", shown, manyCalls)
	}
	browsertest.Eval[any](p, `location.hash = "#trial/long/1/call-9999", 0`)
	p.Await(`document.getElementById("trial/long/1/call-9999").querySelector("details").open`)
	p.Await(`(r => r.top >= 0 && r.bottom <= innerHeight + 2000)(document.getElementById("trial/long/1/call-9999").getBoundingClientRect())`)
	searches("no such file")(t, p)
	p.Fits()
	p.Quiet()
}

// The report of a run of more trials than fit is usable. It names the omitted trials, links to them lead
// to that list, and trials that did not pass are included.
func TestBroadRun(t *testing.T) {
	dir := runtest.Dir(t)
	broadRun(t, dir, 1_400)
	path, size := written(t, dir)
	t.Logf("%d bytes", size)
	if size > broadReport {
		t.Errorf("the report has %d bytes", size)
	}
	p := browsertest.Start(t).Open(t, file(path), browsertest.View{})
	t.Logf("first paint after %s", p.FirstPaint())
	sorts(t, p)
	filters(t, p, "task-07", 1)
	browsertest.Eval[any](p, `location.hash = "#trial/task-03/50", 0`)
	p.Await(`document.getElementById("trial/task-03/50").checkVisibility()`)
	searches("find_item")(t, p)
	p.Fits()
	const left = `document.querySelectorAll(".left-out li")`
	if n := browsertest.Eval[int](p, left+`.length`); n < 20 || n > 60 {
		t.Errorf("%d trials are left out", n)
	}
	browsertest.Eval[any](p, `location.hash = "#" + encodeURIComponent(`+left+`[0].id), 0`)
	p.Await(`document.getElementById("left-out").checkVisibility() && document.body.innerText.includes("waza serve")`)
	look(t, p, "left-out")
	p.Quiet()
}

// JavaScript expressions for times in milliseconds: when the page was loaded, and how long
// a search takes from input to the next frame.
const (
	loadTime   = `performance.getEntriesByType("navigation")[0].loadEventEnd`
	searchTime = `(async () => {
	const find = document.querySelector(".page.seen .find"), told = document.querySelector(".page.seen .told");
	find.focus();
	const start = performance.now(), before = told.textContent;
	find.value = "no such file";
	find.dispatchEvent(new Event("input", {bubbles: true}));
	while (told.textContent === before) await new Promise(requestAnimationFrame);
	await new Promise(requestAnimationFrame);
	return performance.now() - start;
})()`
)

// BenchmarkFirstPaint measures the time to first paint and to load of reports, as files and from the
// server, the time to search a file, and its size.
func BenchmarkFirstPaint(b *testing.B) {
	for _, c := range []struct {
		name, page string
		fill       func(testing.TB, string)
	}{
		{"small", "trial/task-07/1", func(t testing.TB, dir string) { broadRun(t, dir, 20) }},
		{"trials=1000", "trial/task-07/50", func(t testing.TB, dir string) { broadRun(t, dir, manyTrials) }},
		{"trials=5000", "overview", func(t testing.TB, dir string) { broadRun(t, dir, 5*manyTrials) }},
		{"calls=10000", "trial/long/1", func(t testing.TB, dir string) { longTrial(t, dir, manyCalls) }},
		{"calls=100000", "trial/long/1", func(t testing.TB, dir string) { longTrial(t, dir, 10*manyCalls) }},
	} {
		b.Run(c.name, func(b *testing.B) {
			dir := runtest.Dir(b)
			c.fill(b, filepath.Join(dir, "run"))
			path, size := written(b, filepath.Join(dir, "run"))
			browser := browsertest.Start(b)
			b.Run("file", func(b *testing.B) {
				firstPaint(b, func() *browsertest.Page { return browser.Open(b, file(path)+"#"+c.page, browsertest.View{}) })
				b.ReportMetric(float64(size), "bytes")
			})
			b.Run("served", func(b *testing.B) {
				address := served(b, dir)
				firstPaint(b, func() *browsertest.Page {
					p := browser.Open(b, address, browsertest.View{})
					p.Do(chromedp.Navigate(browsertest.Eval[string](p, "location.origin") + "/runs/run/" + c.page))
					return p
				})
			})
		})
	}
}

func firstPaint(b *testing.B, open func() *browsertest.Page) {
	var paint time.Duration
	var load, search float64
	for b.Loop() {
		p := open()
		paint += p.FirstPaint()
		p.Await(loadTime + " > 0")
		load += browsertest.Eval[float64](p, loadTime)
		if browsertest.Eval[bool](p, `document.querySelector(".page.seen .find") !== null`) {
			search += browsertest.Eval[float64](p, searchTime)
		}
	}
	b.ReportMetric(float64(paint.Milliseconds())/float64(b.N), "first-paint-ms")
	b.ReportMetric(load/float64(b.N), "load-ms")
	if search > 0 {
		b.ReportMetric(search/float64(b.N), "search-ms")
	}
}
