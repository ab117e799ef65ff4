package pages

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/chromedp/chromedp/kb"

	"github.com/waza-isolate/waza/internal/browsertest"
	"github.com/waza-isolate/waza/internal/runtest"
)

// JavaScript expressions for the visible trial, and the number of its steps that are shown,
// on and off screen.
const (
	trial = `[...document.querySelectorAll(".trial")].find(t => t.checkVisibility())`
	steps = `[...(` + trial + `).querySelectorAll(".bunch:not([hidden])")].reduce((n, b) => n + (b.classList.contains("filled")
		? [...b.children].filter(r => r.checkVisibility()).length : Number(b.style.getPropertyValue("--left") || b.dataset.rows)), 0)`
)

// searches searches the steps for a word with the keyboard only, goes to the first match,
// and clears the search.
func searches(word string) func(*testing.T, *browsertest.Page) {
	return func(t *testing.T, p *browsertest.Page) {
		all := browsertest.Eval[int](p, steps)
		p.Press("/")
		p.Await(`document.activeElement.type === "search"`)
		p.Type(word)
		p.Await(trial + `.querySelector("output").textContent.includes(" of ")`)
		found := browsertest.Eval[int](p, steps)
		if found == 0 || found >= all {
			t.Errorf("%d of %d steps have %q", found, all, word)
		}
		p.Press(kb.Enter)
		p.Await(trial + `.querySelector("output").textContent.startsWith("1 of ")`)
		if text := browsertest.Eval[string](p, trial+`.querySelector(".row:not([hidden])").textContent`); !strings.Contains(text, word) {
			t.Errorf("a step that lacks %q is shown: %s", word, text)
		}
		p.Press(kb.Escape)
		p.Await(strings.ReplaceAll(steps+` === ALL`, "ALL", quoted(all)))
	}
}

// copies copies a text of the trial to the clipboard and checks that it is unchanged.
func copies(t *testing.T, p *browsertest.Page) {
	p.AllowClipboard()
	browsertest.Eval[any](p, `window.copied = `+trial+`.querySelector("button[data-act=copy]"), copied.focus(), 0`)
	want := browsertest.Eval[string](p, `copied.parentElement.nextElementSibling.textContent`)
	p.Press(kb.Enter)
	p.Await(`copied.textContent === "copied"`)
	if got := browsertest.Eval[string](p, `navigator.clipboard.readText()`); got != want || want == "" {
		t.Errorf("copied %q, want %q", got, want)
	}
}

// jsonFolds folds and unfolds a JSON object in a step.
func jsonFolds(t *testing.T, p *browsertest.Page) {
	browsertest.Eval[any](p, `(`+trial+`).querySelectorAll(".row > details").forEach(d => { d.open = true }), 0`)
	p.Await(trial + `.querySelector(".row .fold-at") !== null`)
	browsertest.Eval[any](p, `window.fold = `+trial+`.querySelector(".row .fold-at"), fold.focus(), 0`)
	const height = `fold.parentElement.getBoundingClientRect().height` // the frame of the text may be as high as its neighbor
	open := browsertest.Eval[float64](p, height)
	p.Press(kb.Enter)
	if shut := browsertest.Eval[float64](p, height); shut >= open {
		t.Errorf("folded it takes %v pixels, open %v", shut, open)
	}
	p.Press(" ")
	if again := browsertest.Eval[float64](p, height); again != open {
		t.Errorf("unfolded it takes %v pixels, was %v", again, open)
	}
}

// The key n leads from trial to trial that did not pass. A trial's page has its setup and
// the command that runs it again, to copy, and switches between Markdown and text.
func TestFailingTrials(t *testing.T) {
	dir := runtest.Dir(t)
	made(t, dir, "run", "# Price\n\n- *ten* cents\n")
	report, _ := written(t, filepath.Join(dir, "run"))
	p := browsertest.Start(t).Open(t, file(report), browsertest.View{})
	for _, id := range []string{"trial/buy/1", "trial/sell/1"} {
		p.Press("n")
		p.Await(`location.hash === "#` + id + `" && document.querySelector(".page.seen")?.id === "` + id + `" && document.querySelector(".page.seen .setup") !== null`)
	}
	const section, switches = trial + `.querySelector(".setup")`, trial + `.querySelector("section[aria-labelledby$=output] .as-written`
	browsertest.Eval[any](p, section+`.querySelector("summary").click()`)
	p.Await(section + `.querySelectorAll("button[data-act=copy]").length === 2`)
	p.AllowClipboard()
	for i, want := range []string{"waza rerun " + filepath.Join(dir, "run") + " --task sell --trials 1 --keep", "- 12 cents"} {
		browsertest.Eval[any](p, fmt.Sprintf(`window.copied = %s.querySelectorAll("button[data-act=copy]")[%d], copied.focus(), 0`, section, i))
		p.Press(kb.Enter)
		p.Await(`copied.textContent === "copied"`)
		if got := browsertest.Eval[string](p, `navigator.clipboard.readText()`); !strings.Contains(got, want) {
			t.Errorf("copied %q, which lacks %q", got, want)
		}
	}
	shown := func() []bool {
		return browsertest.Eval[[]bool](p, `[`+switches+` + .markdown em"), `+switches+` pre")].map(e => e.checkVisibility())`)
	}
	markdown := shown()
	browsertest.Eval[any](p, switches+` summary").focus(), 0`)
	p.Press(kb.Enter)
	if text := shown(); !slices.Equal(markdown, []bool{true, false}) || !slices.Equal(text, []bool{false, true}) {
		t.Errorf("Markdown and text are shown: %v, then %v", markdown, text)
	}
	look(t, p, "failing")
	p.Quiet()
}
