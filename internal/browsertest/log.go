package browsertest

import (
	"context"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"sync"

	devlog "github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
)

// log records what a page must not do: write to the console, throw exceptions, violate its
// policy, open dialogs, or request anything but itself.
type log struct {
	own    *url.URL
	dialog func()

	mu    sync.Mutex
	notes []string // guarded by mu
	asked sync.WaitGroup
}

func newLog(own string) *log {
	u, err := url.Parse(own)
	if err != nil {
		u = &url.URL{}
	}
	return &log{own: u}
}

// hear handles an event of the browser. It must not wait for the browser.
func (l *log) hear(event any) {
	switch e := event.(type) {
	case *runtime.EventConsoleAPICalled:
		l.note("console." + string(e.Type) + ": " + textOf(e.Args))
	case *runtime.EventExceptionThrown:
		l.note("exception: " + exception(e.ExceptionDetails))
	case *devlog.EventEntryAdded:
		l.note(fmt.Sprintf("%s: %s: %s", e.Entry.Source, e.Entry.Level, e.Entry.Text))
	case *network.EventRequestWillBeSent:
		if !l.isOwn(e.Request.URL) {
			l.note("request: " + e.Request.URL)
		}
	case *network.EventWebSocketCreated:
		l.note("web socket: " + e.URL)
	case *page.EventJavascriptDialogOpening:
		l.note(fmt.Sprintf("dialog: %s: %s", e.Type, e.Message))
		l.asked.Go(l.dialog)
	case *page.EventWindowOpen:
		l.note("window: " + e.URL)
	}
}

// isOwn reports whether an address is the page's own file or on the page's server.
func (l *log) isOwn(address string) bool {
	u, err := url.Parse(address)
	if err != nil || u.Scheme != l.own.Scheme || u.Host != l.own.Host {
		return address == "about:blank"
	}
	return u.Scheme != "file" || u.Path == l.own.Path
}

func (l *log) note(text string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.notes = append(l.notes, text)
}

func (l *log) all() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.notes)
}

func (l *log) String() string { return strings.Join(l.all(), "\n") }

// Notes returns what was recorded of the page.
func (p *Page) Notes() []string { return p.log.all() }

// Quiet fails the test if the page wrote to the console, threw an exception, violated its
// policy, opened a dialog, or requested anything but itself.
func (p *Page) Quiet() {
	p.t.Helper()
	p.Do() // handles events that the browser sent before
	if notes := p.log.all(); len(notes) > 0 {
		p.t.Errorf("the page is not quiet:\n%s", strings.Join(notes, "\n"))
	}
}

// dismiss closes a dialog, which blocks the page.
func (p *Page) dismiss() {
	ctx, cancel := context.WithTimeout(p.ctx, patience)
	defer cancel()
	// If the page is gone, so is its dialog.
	_, _ = chromedp.Call(ctx, page.HandleJavaScriptDialog, page.HandleJavaScriptDialogParams{Accept: false})
}

func textOf(args []*runtime.RemoteObject) string {
	var words []string
	for _, arg := range args {
		if len(arg.Value) > 0 {
			words = append(words, string(arg.Value))
		} else {
			words = append(words, arg.Description)
		}
	}
	return strings.Join(words, " ")
}

func exception(d *runtime.ExceptionDetails) string {
	if d.Exception != nil && d.Exception.Description != "" {
		return d.Exception.Description
	}
	return d.Text
}
