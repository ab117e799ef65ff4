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

// PicturesEnv is the environment variable with the directory for screenshots. Without it
// none are taken.
const PicturesEnv = "WAZA_SCREENSHOTS"

// Picture writes a screenshot of the page to NAME.png if screenshots are enabled.
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

// Fits fails the test if the page is wider than its window. Parts of it may scroll by
// themselves.
func (p *Page) Fits() {
	p.t.Helper()
	for _, element := range Eval[[]string](p, overhanging) {
		p.t.Errorf("wider than the window: %s", element)
	}
}

// overhanging returns the deepest elements that extend beyond the window and are not in a
// part that scrolls or is clipped by itself.
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

// FirstPaint returns the time from the request of the page to its first contentful paint.
func (p *Page) FirstPaint() time.Duration {
	p.t.Helper()
	p.Await(painted)
	return time.Duration(Eval[float64](p, painted) * float64(time.Millisecond))
}

const painted = `(performance.getEntriesByName("first-contentful-paint")[0] || {}).startTime`

// Before runs a script in every page that p opens from now on, before that page's own
// content.
func (p *Page) Before(script string) {
	p.t.Helper()
	p.Do(func(ctx context.Context, t *chromedp.Target) (void chromedp.Void, err error) {
		_, err = cdp.Call(ctx, t, page.AddScriptToEvaluateOnNewDocument, page.AddScriptToEvaluateOnNewDocumentParams{Source: script})
		return void, err
	})
}

// PDF returns the printed page.
func (p *Page) PDF() []byte {
	p.t.Helper()
	return Ask(p, chromedp.PrintToPDF())
}
