package browsertest

import (
	"context"
	"os"
	"path/filepath"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/chromedp"
)

// PicturesEnv names the variable that holds the directory that pictures go to. Without it
// none is taken.
const PicturesEnv = "WAZA_SCREENSHOTS"

// Picture writes what is seen of the page to NAME.png, where pictures are wanted.
func (p *Page) Picture(name string) {
	p.t.Helper()
	dir := os.Getenv(PicturesEnv)
	if dir == "" {
		return
	}
	picture := Ask(p, chromedp.CaptureScreenshot())
	if err := os.MkdirAll(dir, 0o755); err != nil {
		p.t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, name+".png"), picture, 0o644); err != nil {
		p.t.Fatal(err)
	}
}

// Fits fails the test where the page is wider than its window. Parts of it may scroll by
// themselves.
func (p *Page) Fits() {
	p.t.Helper()
	for _, element := range Eval[[]string](p, overhanging) {
		p.t.Errorf("wider than the window: %s", element)
	}
}

// overhanging names what makes the page scroll sideways: the deepest elements that end
// beyond the window and are in no part that scrolls or is cut by itself.
const overhanging = `(() => {
	const root = document.documentElement, width = root.clientWidth;
	if (root.scrollWidth <= width) return [];
	const own = e => getComputedStyle(e).overflowX !== "visible";
	const out = [...document.body.querySelectorAll("*")].filter(e => {
		if (e.getBoundingClientRect().right <= width + 0.5) return false;
		for (let up = e.parentElement; up && up !== document.body; up = up.parentElement) if (own(up)) return false;
		return true;
	});
	const name = e => e.tagName.toLowerCase() + (e.id ? "#" + e.id : "") + [...e.classList].map(c => "." + c).join("") +
		" to " + Math.round(e.getBoundingClientRect().right) + " of " + width;
	return out.length ? out.slice(-8).map(name) : ["the page, to " + root.scrollWidth + " of " + width];
})()`

// FirstPaint returns when the page first showed something of what is in it, from when it was
// asked for.
func (p *Page) FirstPaint() time.Duration {
	p.t.Helper()
	p.Await(painted)
	return time.Duration(Eval[float64](p, painted) * float64(time.Millisecond))
}

const painted = `(performance.getEntriesByName("first-contentful-paint")[0] || {}).startTime`

// Before has a script run in every page that p goes to from now on, before anything of that
// page is read.
func (p *Page) Before(script string) {
	p.t.Helper()
	p.Do(func(ctx context.Context, t *chromedp.Target) (void chromedp.Void, err error) {
		_, err = cdp.Call(ctx, t, page.AddScriptToEvaluateOnNewDocument, page.AddScriptToEvaluateOnNewDocumentParams{Source: script})
		return void, err
	})
}

// PDF returns the page as it is printed.
func (p *Page) PDF() []byte {
	p.t.Helper()
	return Ask(p, chromedp.PrintToPDF())
}
