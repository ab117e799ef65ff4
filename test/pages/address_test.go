// Package pages tests the HTML of waza in a browser: reports of real and synthetic runs,
// and the pages of its server.
package pages

import (
	"path/filepath"
	"slices"
	"testing"

	"github.com/chromedp/chromedp"

	"github.com/waza-isolate/waza/internal/browsertest"
	"github.com/waza-isolate/waza/internal/runtest"
)

// noteSeen records the id of the visible page whenever the document changes, and when it
// has loaded.
const noteSeen = `
window.pagesSeen = [];
const note = () => {
	for (const page of document.querySelectorAll(".page")) {
		if (page.checkVisibility() && pagesSeen.at(-1) !== page.id) pagesSeen.push(page.id);
	}
};
new MutationObserver(note).observe(document, {childList: true, subtree: true});
addEventListener("load", note);`

// Only the page that the address refers to is ever visible.
func TestAddressesOfReport(t *testing.T) {
	dir := runtest.Dir(t)
	made(t, dir, "shop", "It costs 12 cents.")
	path, _ := written(t, filepath.Join(dir, "shop"))
	p := browsertest.Start(t).Open(t, file(path), browsertest.View{})
	p.Before(noteSeen)
	for at, want := range map[string]string{
		"":                      "overview",
		"#overview/tasks":       "overview",
		"#servers":              "servers",
		"#trial/buy/1":          "trial/buy/1",
		"#trial/sell/1/call-1":  "trial/sell/1",
		"#trial/sell/1/call-99": "trial/sell/1",
		"#nowhere":              "overview",
		"#%":                    "overview",
	} {
		browsertest.Eval[any](p, `location.hash = `+quoted(at)+`, 0`)
		p.Do(chromedp.Reload())
		if seen := browsertest.Eval[[]string](p, `pagesSeen`); !slices.Equal(seen, []string{want}) {
			t.Errorf("at %q the pages %q are seen, want %s alone", at, seen, want)
		}
	}
	p.Quiet()
}
