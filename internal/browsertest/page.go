package browsertest

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/chromedp/cdproto"
	"github.com/chromedp/cdproto/browser"
	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/input"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
)

// View configures how a page is viewed. The zero View is 1280 by 800, light, with
// animations.
type View struct {
	Width, Height int
	Dark          bool
	Still         bool // prefers reduced motion
	Paper         bool // as printed
	NoScript      bool
}

// Page is a page in its own browser context, without shared storage.
type Page struct {
	t   testing.TB
	ctx context.Context
	log *log
}

// Open opens url and waits until it is loaded. The page is closed at the end of the test.
func (b *Browser) Open(t testing.TB, url string, v View) *Page {
	t.Helper()
	p := &Page{t: t, log: newLog(url)}
	p.log.dialog = p.dismiss
	p.ctx, _ = chromedp.NewContext(b.ctx, chromedp.WithNewBrowserContext(), chromedp.WithListener(p.log.hear))
	t.Cleanup(func() { stop(t, p.ctx); p.log.asked.Wait() })
	// The page lives as long as the context of its first operation.
	if err := chromedp.Do(p.ctx); err != nil {
		t.Fatalf("no page: %v", err)
	}
	p.Do(v.emulate(), chromedp.Navigate(url))
	return p
}

// For returns the page for a subtest, which reports its failures.
func (p *Page) For(t testing.TB) *Page { return &Page{t, p.ctx, p.log} }

// Do runs actions.
func (p *Page) Do(actions ...chromedp.Action[chromedp.Void]) {
	p.t.Helper()
	ctx, cancel := context.WithTimeout(p.ctx, patience)
	defer cancel()
	if err := chromedp.Do(ctx, actions...); err != nil {
		p.t.Fatalf("in the page: %v\n%s", err, p.log)
	}
}

// Ask runs an action and returns its result.
func Ask[T any](p *Page, action chromedp.Action[T]) T {
	p.t.Helper()
	ctx, cancel := context.WithTimeout(p.ctx, patience)
	defer cancel()
	got, err := chromedp.Run(ctx, action)
	if err != nil {
		p.t.Fatalf("in the page: %v\n%s", err, p.log)
	}
	return got
}

// Eval evaluates a JavaScript expression in the page, awaiting promises, and returns its
// value.
func Eval[T any](p *Page, expression string) T {
	p.t.Helper()
	return Ask(p, chromedp.Evaluate[T](expression, chromedp.EvalAwaitPromise))
}

// Await waits until an expression is true in the page or in one that replaces it. An expression
// that throws, as it may while a page is incomplete, is not true yet.
func (p *Page) Await(expression string) {
	p.t.Helper()
	ctx, cancel := context.WithTimeout(p.ctx, patience)
	defer cancel()
	poll := chromedp.Poll[chromedp.Void]("(() => { try { return "+expression+" } catch { return false } })()", chromedp.WithPollingTimeout(0))
	_, err := chromedp.Run(ctx, poll)
	for left := new(cdproto.Error); errors.As(err, &left) && ctx.Err() == nil; {
		_, err = chromedp.Run(ctx, poll)
	}
	if err != nil {
		p.t.Fatalf("never came true: %s: %v\n%s", expression, err, p.log)
	}
}

// Click clicks the first element that matches a CSS selector, once it is visible.
func (p *Page) Click(selector string) {
	p.t.Helper()
	p.Do(chromedp.Click(chromedp.CSS(selector)))
}

// Press presses a sequence of keys: texts, or keys of package kb. A key that the page
// handles itself enters no text.
func (p *Page) Press(keys ...string) {
	p.t.Helper()
	for _, key := range strings.Join(keys, "") {
		p.Do(func(ctx context.Context, t *chromedp.Target) (void chromedp.Void, err error) {
			for _, event := range stroke(key) {
				if _, err = cdp.Call(ctx, t, input.DispatchKeyEvent, event); err != nil {
					return void, err
				}
			}
			return void, nil
		})
	}
}

// stroke returns the events for pressing a key, with the text that it enters, and for
// releasing it.
func stroke(key rune) [2]input.DispatchKeyEventParams {
	events := kb.Encode(key)
	down := *events[0]
	if written := events[1]; written.Type == kb.KeyChar {
		down.Text, down.UnmodifiedText = written.Text, written.UnmodifiedText
	}
	return [2]input.DispatchKeyEventParams{down, *events[len(events)-1]}
}

// Type enters a text at the focus all at once.
func (p *Page) Type(text string) {
	p.t.Helper()
	p.Do(func(ctx context.Context, t *chromedp.Target) (void chromedp.Void, err error) {
		_, err = cdp.Call(ctx, t, input.InsertText, input.InsertTextParams{Text: text})
		return void, err
	})
}

// See changes the view of the page and waits for transitions to end.
func (p *Page) See(v View) {
	p.t.Helper()
	p.Do(v.emulate())
	if !v.NoScript {
		Eval[any](p, settled)
	}
}

// settled waits for two frames, in which transitions start, and for the end of each.
const settled = `(async () => {
	for (let i = 0; i < 2; i++) await new Promise(requestAnimationFrame);
	await Promise.all(document.getAnimations().map(a => a.finished.catch(() => {})));
	return 0;
})()`

// AllowClipboard allows the page to read and write the clipboard, as after a user's click.
func (p *Page) AllowClipboard() {
	p.t.Helper()
	p.Do(func(ctx context.Context, _ *chromedp.Target) (chromedp.Void, error) {
		own := chromedp.FromContext(ctx).BrowserContextID
		for _, name := range []string{"clipboard-read", "clipboard-write"} {
			_, err := chromedp.CallBrowser(ctx, browser.SetPermission, browser.SetPermissionParams{
				Permission: &browser.PermissionDescriptor{Name: name, AllowWithoutSanitization: false}, Setting: browser.PermissionSettingGranted, BrowserContextID: own,
			})
			if err != nil {
				return chromedp.Void{}, err
			}
		}
		return chromedp.Void{}, nil
	})
}

func (v View) emulate() chromedp.Action[chromedp.Void] {
	media := emulation.SetEmulatedMediaParams{Features: []*emulation.MediaFeature{
		{Name: "prefers-color-scheme", Value: choose(v.Dark, "dark", "light")},
		{Name: "prefers-reduced-motion", Value: choose(v.Still, "reduce", "no-preference")},
	}}
	media.Media = choose(v.Paper, "print", "screen")
	width, height := v.Width, v.Height
	if width == 0 {
		width = 1280
	}
	if height == 0 {
		height = 800
	}
	return func(ctx context.Context, t *chromedp.Target) (void chromedp.Void, err error) {
		if _, err = chromedp.EmulateViewport(int64(width), int64(height))(ctx, t); err != nil {
			return void, err
		}
		if _, err = cdp.Call(ctx, t, emulation.SetEmulatedMedia, media); err != nil {
			return void, err
		}
		_, err = cdp.Call(ctx, t, emulation.SetScriptExecutionDisabled, emulation.SetScriptExecutionDisabledParams{Value: v.NoScript})
		return void, err
	}
}

func choose(yes bool, a, b string) string {
	if yes {
		return a
	}
	return b
}
