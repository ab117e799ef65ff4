package github_test

import (
	"bytes"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/yuin/goldmark"
	"github.com/yuin/goldmark/extension"
	render "github.com/yuin/goldmark/renderer/html"
	"golang.org/x/net/html"
)

// mark begins every stranger's text.
const mark = "QQ"

// rendered returns the HTML of a text as rendered by GitHub, without GitHub's own changes.
func rendered(t testing.TB, text string) *html.Node {
	t.Helper()
	var out bytes.Buffer
	gfm := goldmark.New(goldmark.WithExtensions(extension.GFM, extension.Footnote), goldmark.WithRendererOptions(render.WithUnsafe()))
	if err := gfm.Convert([]byte(text), &out); err != nil {
		t.Fatal(err)
	}
	root, err := html.Parse(&out)
	if err != nil {
		t.Fatal(err)
	}
	return root
}

var allowed = strings.Fields("html head body h3 p strong sub table thead tbody tr th td details summary code pre")

// linked is what GitHub makes more of than text, outside of code.
var linked = regexp.MustCompile(`[@#]|://|www\.|GH-\d|\b[0-9a-f]{7,40}\b|:[a-z+]+:`)

// mail is what GitHub's renderer takes for an address in any text that is not HTML of its
// own, also in what looks like code to a browser. The one here does not.
var mail = regexp.MustCompile(`@[\pL\pN]`)

// structure returns the elements of a page in order. It fails the test for foreign
// elements, and for untrusted text outside of code.
func structure(t testing.TB, node *html.Node) (names []string) {
	t.Helper()
	for n := range node.Descendants() {
		switch n.Type {
		case html.ElementNode:
			names = append(names, n.Data)
			if !slices.Contains(allowed, n.Data) {
				t.Errorf("there is a %s", n.Data)
			}
			for _, a := range n.Attr {
				if a.Key != "style" || !strings.HasPrefix(a.Val, "text-align:") {
					t.Errorf("a %s has %s=%q", n.Data, a.Key, a.Val)
				}
			}
		case html.TextNode:
			if !within(n, "pre") && mail.MatchString(n.Data) {
				t.Errorf("GitHub makes an address of %q", n.Data)
			}
			if !within(n, "code", "pre") && (strings.Contains(n.Data, mark) || linked.MatchString(n.Data)) {
				t.Errorf("this stands outside of code: %q", n.Data)
			}
			if at := strings.IndexAny(n.Data, "\x00\x1b\u202e\u2066\u200b\r"); at >= 0 {
				t.Errorf("%q has a character that nobody can see", n.Data)
			}
		case html.CommentNode:
			if n.Data != " " {
				t.Errorf("there is a comment %q", n.Data)
			}
		}
	}
	return names
}

func within(n *html.Node, elements ...string) bool {
	for p := range n.Ancestors() {
		if p.Type == html.ElementNode && slices.Contains(elements, p.Data) {
			return true
		}
	}
	return false
}

var hostile = []string{
	"@octocat", "@org/team, #123 GH-4 org/repo#5 a1b2c3d4e5f6a7b8c9d0a1b2c3d4e5f6a7b8c9d0", "http://192.0.2.1/x www.invalid.example mail@invalid.example",
	"![p](http://192.0.2.1/p.png)", "<img src=http://192.0.2.1/p.png>", "[l](javascript:alert(1))", "<http://192.0.2.1>", "[a]: http://192.0.2.1\n\n[a]",
	"a | b | c\n|--|--|", "`", "``a``", "```\n</pre>\n```", "</pre></code></details><h1>x</h1>", "<!-- ", "-->", "*a* **b** _c_ ~~d~~", "\n\n# heading\n\n- list\n\n> quote\n\n---\n",
	"\\| \\` \\<", "&lt;b&gt; &#60;b&#62; &amp;lt;", ":smile: $x$ $$y$$ [^1]", "<script>alert(1)</script>", "<details open><summary>x</summary>", "\x1b]8;;http://192.0.2.1\x07x", "\u202eabc\u200b\u2066",
	"\r\n\r\n<b>", "\x00\xff", strings.Repeat("`", 300), "w.w.www.www.invalid.example", "    indented\n\tcode", "::error::x\n##[error]y", "- [ ] task", "[!NOTE]", "<![CDATA[x]]>", "<?php ?>",
}

// Hostile text does not add elements to a comment: no links, images, tags or mentions.
func TestHostileTextIsText(t *testing.T) {
	mild := func(s string) string { return mark + s }
	run := said(t, 2, 2, mild)
	want, wantCompared := structure(t, rendered(t, comment(t, run))), structure(t, rendered(t, compared(t, run, run)))
	for _, evil := range hostile {
		run := said(t, 2, 2, func(s string) string { return mark + evil + s + evil })
		if diff := cmp.Diff(want, structure(t, rendered(t, comment(t, run)))); diff != "" {
			t.Errorf("%q: %s", evil, diff)
		}
		if diff := cmp.Diff(wantCompared, structure(t, rendered(t, compared(t, run, run)))); diff != "" {
			t.Errorf("%q, compared: %s", evil, diff)
		}
	}
}

// A pipeline that prints a comment into its log obeys nothing in it.
func TestNothingIsObeyedInALog(t *testing.T) {
	text := comment(t, said(t, 2, 2, func(s string) string { return "\n::error::" + s + "\n##[error]" + s + "\n##vso[task]" }))
	if strings.Contains(text, "::") || strings.Contains(text, "##[") || strings.Contains(text, "##vso[") {
		t.Error(text)
	}
}

// FuzzText is TestHostileTextIsText of any text.
func FuzzText(f *testing.F) {
	for _, evil := range hostile {
		f.Add(evil)
	}
	want := structure(f, rendered(f, comment(f, said(f, 2, 2, func(s string) string { return mark + s }))))
	f.Fuzz(func(t *testing.T, evil string) {
		text := comment(t, said(t, 2, 2, func(s string) string { return mark + s + evil }))
		if len(text) > limit {
			t.Errorf("%d bytes", len(text))
		}
		if diff := cmp.Diff(want, structure(t, rendered(t, text))); diff != "" {
			t.Errorf("%s\n%s", diff, text)
		}
	})
}
