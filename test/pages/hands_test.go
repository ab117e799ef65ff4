package pages

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/chromedp/chromedp/kb"

	"github.com/waza-isolate/waza/internal/browsertest"
)

// column is a column of a sortable table, with its sort keys from top to bottom.
type column struct {
	Header string   `json:"header"`
	Sort   string   `json:"sort"`
	Keys   []string `json:"keys"`
}

const columns = `[...document.querySelectorAll("table.sortable")].filter(t => t.checkVisibility()).flatMap((table, t) =>
	[...table.tHead.rows[0].cells].filter(h => h.querySelector("button")).map(h => ({
		header: h.textContent.trim(), sort: h.getAttribute("aria-sort") || "",
		keys: rowsOf(table.tBodies[0]).map(r => r.cells[h.cellIndex].dataset.key ?? r.cells[h.cellIndex].textContent.trim()),
	})))`

const pressHeader = `[...document.querySelectorAll("table.sortable")].filter(t => t.checkVisibility()).flatMap(t => [...t.tHead.querySelectorAll("th button")])[%d].click(), 0`

// sorts sorts every table of the page by each column, ascending and descending.
func sorts(t *testing.T, p *browsertest.Page) {
	t.Helper()
	all := browsertest.Eval[[]column](p, columns)
	if len(all) == 0 {
		t.Error("no table can be sorted")
	}
	for i, was := range all {
		browsertest.Eval[any](p, fmt.Sprintf(pressHeader, i))
		up := browsertest.Eval[[]column](p, columns)[i]
		browsertest.Eval[any](p, fmt.Sprintf(pressHeader, i))
		down := browsertest.Eval[[]column](p, columns)[i]
		if up.Sort != "ascending" || down.Sort != "descending" {
			t.Errorf("%s: says it is sorted %q, then %q", was.Header, up.Sort, down.Sort)
		}
		if !slices.Equal(slices.Sorted(slices.Values(was.Keys)), slices.Sorted(slices.Values(up.Keys))) {
			t.Errorf("%s: rows came or went: %q, was %q", was.Header, up.Keys, was.Keys)
		}
		backwards := slices.Clone(down.Keys)
		slices.Reverse(backwards)
		if !slices.Equal(up.Keys, backwards) {
			t.Errorf("%s: up %q, down %q", was.Header, up.Keys, down.Keys)
		}
		if !inOrder(p, up.Keys) {
			t.Errorf("%s: not in order: %q", was.Header, up.Keys)
		}
	}
}

// inOrder reports whether keys are sorted: numerically if all are numbers, otherwise by the
// English collation.
func inOrder(p *browsertest.Page, keys []string) bool {
	return browsertest.Eval[bool](p, fmt.Sprintf(`(keys => {
		const numbers = keys.every(k => k !== "" && !isNaN(k));
		return keys.every((k, i) => i === 0 || (numbers ? Number(keys[i - 1]) <= Number(k) : keys[i - 1].localeCompare(k, "en", {numeric: true}) <= 0));
	})(%s)`, quoted(keys)))
}

func quoted(v any) string {
	text, err := json.Marshal(v)
	if err != nil {
		panic(err) // strings and numbers only
	}
	return string(text)
}

// focused describes the focused element.
type focused struct {
	Name string `json:"name"`
	Seen bool   `json:"seen"` // within the window, with a visible focus ring
	Body bool   `json:"body"`
}

const focus = `(() => {
	const e = document.activeElement, s = getComputedStyle(e), r = e.getBoundingClientRect();
	const near = e.matches("input[type=radio], input[type=checkbox]") ? getComputedStyle(e.nextElementSibling ?? e) : s;
	const marked = c => c.outlineStyle !== "none" && parseFloat(c.outlineWidth) >= 1;
	return {
		name: (e.tagName + "#" + e.id + " " + (e.getAttribute("aria-label") || e.textContent)).trim().slice(0, 80), body: e === document.body,
		seen: (marked(s) || marked(near)) && r.bottom > 0 && r.top < innerHeight && r.right > 0 && r.left < innerWidth,
	};
})()`

// stops counts the elements that Tab should reach; a group of radio buttons counts once.
const stops = `(() => {
	const names = new Set();
	return [...document.querySelectorAll("a[href], button, input, select, textarea, summary, [tabindex='0']")].filter(e => {
		if (!e.checkVisibility({visibilityProperty: true}) || e.disabled || e.tabIndex < 0) return false;
		if (e.type !== "radio") return true;
		return !names.has(e.name) && names.add(e.name);
	}).length;
})()`

// walks moves through the whole page with the Tab key and checks that every element that
// can have the focus gets it, is in view and has a focus ring.
func walks(t *testing.T, p *browsertest.Page) {
	t.Helper()
	const most = 400
	browsertest.Eval[any](p, `document.querySelector(".skip").focus(), 0`)
	want := min(browsertest.Eval[int](p, stops), most)
	for i := 1; i < want; i++ {
		p.Press(kb.Tab)
		at := browsertest.Eval[focused](p, focus)
		if at.Body {
			t.Fatalf("the keyboard left the page after %d of %d stops", i, want)
		}
		if !at.Seen {
			t.Errorf("stop %d is not seen: %s", i+1, at.Name)
		}
	}
}

// folds opens and closes a details element with Enter and Space.
func folds(t *testing.T, p *browsertest.Page) {
	t.Helper()
	const first = `[...document.querySelectorAll("summary")].find(s => s.checkVisibility())`
	if !browsertest.Eval[bool](p, first+" !== undefined") {
		t.Error("nothing is folded")
		return
	}
	browsertest.Eval[any](p, `window.folded = `+first+`, folded.focus(), 0`)
	open := func() bool { return browsertest.Eval[bool](p, `folded.parentElement.open`) }
	was := open()
	p.Press(kb.Enter)
	if open() == was {
		t.Error("Enter does not open what is folded")
	}
	p.Press(" ")
	if open() != was {
		t.Error("Space does not close it")
	}
}

// skips uses the skip link with the first two keys in a page.
func skips(t *testing.T, p *browsertest.Page) {
	t.Helper()
	p.Press(kb.Tab, kb.Enter)
	p.Await(`document.activeElement.id === "main"`)
}

// filters types into the filter of a table, checks the number of rows left, and clears the
// filter.
func filters(t *testing.T, p *browsertest.Page, word string, left int) {
	t.Helper()
	const rows = `[...document.querySelectorAll("table.sortable tbody tr:not(.under)")].filter(r => r.checkVisibility() && r.closest("table").id === document.querySelector("input[data-filter]").dataset.filter).length`
	all := browsertest.Eval[int](p, rows)
	browsertest.Eval[any](p, `document.querySelector("input[data-filter]").focus(), 0`)
	p.Type(word)
	p.Await(fmt.Sprintf("%s === %d", rows, left))
	p.Press(strings.Repeat(kb.Backspace, len(word)))
	p.Await(fmt.Sprintf("%s === %d", rows, all))
	if all <= left {
		t.Errorf("%d rows of %d fit %q: nothing is tested", left, all, word)
	}
}
