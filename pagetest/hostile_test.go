package pagetest

import (
	"net/url"
	"testing"

	"github.com/waza-isolate/waza/internal/browsertest"
	"github.com/waza-isolate/waza/internal/runtest"
)

func file(path string) string { return (&url.URL{Scheme: "file", Path: path}).String() }

// foreign names what is in a page that no page of ours has: elements that run, load or
// send something, handlers, addresses that are no place in the file.
const foreign = `[
	...[...document.querySelectorAll("script:not(body > script:last-of-type), style:not(head > style), img, iframe, frame, object, embed, form, base, audio, video, math, link:not([href='data:,']), meta[http-equiv=refresh], main:not(body > main), main ~ main, section.page:not(main > section)")].map(e => e.outerHTML.slice(0, 200)),
	...[...document.querySelectorAll("*")].flatMap(e => [...e.attributes].filter(a =>
		/^on|^style$|^srcdoc$|^formaction$/.test(a.name) || /^(href|src|action)$/.test(a.name) && !/^#|^data:,$/.test(a.value)).map(a => e.tagName + " " + a.name + "=" + a.value.slice(0, 200))),
]`

func TestHostileReport(t *testing.T) {
	dir := runtest.Dir(t)
	run := runtest.New(t, dir, runtest.Attacks()[1])
	run.Trial("hostile", (*runtest.Trial).Attack)
	for i := range run.Record.Tasks {
		run.Record.Tasks[i].Name = runtest.Attacks()[2]
	}
	run.End()
	path, size := written(t, dir)
	t.Logf("%d bytes", size)
	b := browsertest.Start(t)
	for _, at := range []string{"", "#servers", "#trial/hostile/1"} {
		t.Run(at, func(t *testing.T) {
			p := b.Open(t, file(path)+at, browsertest.View{})
			harmless(t, p)
		})
	}
}

// harmless works everything that a page has, and fails the test where something of it is
// more than text.
func harmless(t *testing.T, p *browsertest.Page) {
	t.Helper()
	browsertest.Eval[any](p, `document.querySelectorAll("details").forEach(d => { d.open = true }), 0`)
	browsertest.Eval[any](p, `document.querySelectorAll("button").forEach(b => b.click()), 0`)
	if found := browsertest.Eval[[]string](p, foreign); len(found) > 0 {
		t.Errorf("strangers' elements are in the page: %q", found)
	}
	if browsertest.Eval[bool](p, `"`+runtest.Pwned+`" in window`) {
		t.Error("a stranger's script ran")
	}
	p.Quiet()
}
