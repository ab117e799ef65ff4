package report

import (
	"strings"
	"testing"

	"github.com/waza-isolate/waza/internal/text"

	"golang.org/x/net/html"
)

// parts of pages that are ours: whatever strangers wrote, there are no others.
const (
	ourElements   = " noscript html head meta link title style body a svg symbol circle path rect g line text use header nav main section div span h1 h2 h3 h4 p dl dt dd ul ol li details summary pre code b small figure figcaption input kbd button select option label output script blockquote em strong del hr br table tr th td "
	ourAttributes = " lang charset http-equiv content name rel href class aria-hidden focusable width height id viewbox cx cy r fill d stroke stroke-width stroke-linecap stroke-linejoin stroke-dasharray x y rx transform tabindex aria-label data-page data-title data-from data-failed data-rows aria-labelledby aria-current role type placeholder aria-keyshortcuts value aria-live x1 x2 y1 y2 dy preserveaspectratio start scope "
)

// Whatever bytes the evidence holds, the page has our elements and attributes alone, leads
// nowhere but within itself, and shows every character.
func FuzzTrialPage(f *testing.F) {
	for _, seed := range []string{
		"</pre><script>alert(1)</script>", `"><img src=x onerror=alert(1)>`, "\u202etxt.exe\u2066", "\x1b]0;x\x07\x00\xff", `{"a":[1.0,{"b":null}]}`,
		"</title></style><base href=//example.org>", "javascript:alert(1)", "\n\n\r\n\t", "<!--", "{{.Trial}}", "call 2", "' onfocus='alert(1)",
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		if len(text) > 2000 {
			t.Skip("longer texts are the bounds' affair")
		}
		_, page := pageOf(t, sampled(t, text, 3), Bounds{Text: 4 << 10, Total: 256 << 10, Laid: 32 << 10, Steps: 10})
		checkPage(t, page) // as a browser with scripts reads it, where a noscript is text
		checkPage(t, strings.NewReplacer("<noscript>", "", "</noscript>", "").Replace(page))
	})
}

func checkPage(t *testing.T, page string) {
	scripts := 0
	for tokens := html.NewTokenizer(strings.NewReader(page)); ; {
		kind := tokens.Next()
		if kind == html.ErrorToken {
			break
		}
		token := tokens.Token()
		if kind == html.TextToken && scripts == 0 {
			checkText(t, token.Data)
		}
		if kind != html.StartTagToken && kind != html.SelfClosingTagToken {
			continue
		}
		if token.Data == "script" {
			scripts++
		}
		checkElement(t, token)
	}
	if scripts != 2 {
		t.Fatalf("%d scripts", scripts)
	}
	if open, shut := strings.Count(page, "<noscript>"), strings.Count(page, "</noscript"); open != shut {
		t.Fatalf("%d of %d noscripts end", shut, open)
	}
}

// Whatever Markdown strangers write, it has our elements alone, and ends what it begins.
func FuzzMarkdown(f *testing.F) {
	for _, seed := range markdowns {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, raw string) { checkMarkdown(t, raw) })
}

func checkMarkdown(t *testing.T, raw string) {
	t.Helper()
	room := budget{1 << 20, 1 << 20, maxMarkdown}
	shown := room.markdown(raw)
	for tokens := html.NewTokenizer(strings.NewReader(string(shown.Markdown))); tokens.Next() != html.ErrorToken; {
		switch token := tokens.Token(); token.Type {
		case html.TextToken:
			checkText(t, token.Data)
		case html.StartTagToken, html.SelfClosingTagToken:
			if strings.Contains(" a script style svg details summary noscript input ", " "+token.Data+" ") {
				t.Fatalf("an element %q of %q", token.Data, raw)
			}
			checkElement(t, token)
		case html.CommentToken, html.DoctypeToken:
			t.Fatalf("%v of %q", token, raw)
		}
	}
	page := parseText(t, "<main>"+string(shown.Markdown)+"</main><footer></footer>")
	if after := page.all("footer"); len(after) != 1 || after[0].Parent.Data != "body" || len(page.all("main")) != 1 {
		t.Fatalf("what is behind %q is within it, or not there", raw)
	}
}

func checkElement(t *testing.T, token html.Token) {
	if !strings.Contains(ourElements, " "+token.Data+" ") {
		t.Fatalf("an element %q", token.Data)
	}
	for _, a := range token.Attr {
		if !strings.Contains(ourAttributes, " "+a.Key+" ") {
			t.Fatalf("an attribute %q of %q", a.Key, token.Data)
		}
		if a.Key == "href" && !strings.HasPrefix(a.Val, "#") && a.Val != "data:," {
			t.Fatalf("a link to %q", a.Val)
		}
	}
}

func checkText(t *testing.T, s string) {
	for _, r := range s {
		if text.Hidden(r) {
			t.Fatalf("%q is not visible", r)
		}
	}
}
