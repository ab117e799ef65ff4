package pages

import (
	"net/url"
	"strings"
	"testing"

	"github.com/waza-isolate/waza/internal/browsertest"
	"github.com/waza-isolate/waza/internal/runtest"
	"github.com/waza-isolate/waza/internal/text"
)

func file(path string) string { return (&url.URL{Scheme: "file", Path: path}).String() }

// foreign lists elements that our pages never contain: elements that run, load or send
// something, event handlers, and links that leave the file.
const foreign = `[
	...[...document.querySelectorAll("script:not(main > script:first-child, body > script:last-of-type), style:not(head > style), img, iframe, frame, object, embed, form, base, audio, video, math, link:not([href='data:,']), meta[http-equiv=refresh], main:not(body > main), main ~ main, section.page:not(main > section)")].map(e => e.outerHTML.slice(0, 200)),
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
	if size > longReport {
		t.Errorf("the report has %d bytes", size)
	}
	b := browsertest.Start(t)
	t.Run("as text", func(t *testing.T) {
		p := b.Open(t, file(path)+"#trial/hostile/1", browsertest.View{})
		s := browsertest.Eval[string](p, `document.getElementById("trial/hostile/1").textContent`)
		for _, attack := range runtest.Attacks() {
			if !strings.Contains(s, text.Visible(attack)) {
				t.Errorf("cannot be read in the trial's page: %q", attack)
			}
		}
	})
	for _, at := range []string{"", "#servers", "#trial/hostile/1"} {
		t.Run(at, func(t *testing.T) {
			p := b.Open(t, file(path)+at, browsertest.View{})
			harmless(t, p)
			look(t, p, "hostile"+strings.ReplaceAll(strings.TrimPrefix(at, "#"), "/", "-"))
			p.Quiet()
		})
	}
}

// harmless opens and clicks everything on a page, and fails the test if text of the run
// became markup or a script.
func harmless(t *testing.T, p *browsertest.Page) {
	t.Helper()
	browsertest.Eval[any](p, `[...document.querySelectorAll("details")].filter(d => d.checkVisibility()).forEach(d => { d.open = true }), 0`)
	browsertest.Eval[any](p, `[...document.querySelectorAll("button:not([data-act=copy])")].filter(b => b.checkVisibility()).forEach(b => b.click()), 0`)
	if found := browsertest.Eval[[]string](p, foreign); len(found) > 0 {
		t.Errorf("strangers' elements are in the page: %q", found)
	}
	if browsertest.Eval[bool](p, `"`+runtest.Pwned+`" in window`) {
		t.Error("a stranger's script ran")
	}
	p.Quiet()
}
