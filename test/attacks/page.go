package attacks

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/net/html"
)

// elements are the elements that pages consist of. None of them loads, embeds, sends or
// moves anything.
var elements = words(`html head meta title link style script body header main footer nav section article aside
	a form p div span h1 h2 h3 h4 h5 h6 ul ol li dl dt dd pre code kbd samp em strong b small mark del ins sub sup abbr time br wbr hr
	table caption colgroup col thead tbody tfoot tr th td details summary figure figcaption button input label select option output fieldset legend progress meter noscript
	svg g symbol use defs path rect circle line polyline polygon text tspan`)

// attributes are the allowed attributes, in addition to data-* and aria-*.
var attributes = words(`id class role lang title href name content charset http-equiv rel for type value placeholder tabindex hidden open action method
	scope colspan rowspan headers datetime disabled checked selected autocomplete spellcheck download target
	viewBox preserveAspectRatio width height x y x1 x2 y1 y2 cx cy r rx ry d points dx dy transform fill fill-opacity stroke stroke-width stroke-linecap
	stroke-linejoin stroke-dasharray text-anchor dominant-baseline focusable vector-effect max min low high optimum multiple size xmlns`)

func words(list string) map[string]bool {
	all := map[string]bool{}
	for word := range strings.FieldsSeq(list) {
		all[word] = true
	}
	return all
}

// className matches the classes of waza's pages.
var className = regexp.MustCompile(`^[a-z][a-z0-9-]*$`)

// judged holds the violations found in an output.
type judged struct {
	strays []string // foreign or active content
	odd    []string // raw control characters, or characters that change the text direction
}

func (j *judged) stray(format string, args ...any) {
	j.strays = append(j.strays, fmt.Sprintf(format, args...))
}

// characters finds the odd characters of raw.
func (j *judged) characters(raw []byte) {
	for at := 0; at < len(raw); {
		r, size := utf8.DecodeRune(raw[at:])
		invalid := r == utf8.RuneError && size == 1 || r&0xFFFE == 0xFFFE
		controls := unicode.IsControl(r) && r != '\n' && r != '\t' || unicode.In(r, unicode.Cf, unicode.Co, unicode.Zl, unicode.Zp)
		if invalid || controls {
			j.odd = append(j.odd, fmt.Sprintf("%q stands in %q", r, around(raw, at)))
		}
		at += size
	}
}

// around returns the text around a position.
func around(raw []byte, at int) []byte { return raw[max(at-40, 0):min(at+120, len(raw))] }

// both merges the findings of several outputs.
func both(all ...judged) (j judged) {
	for _, one := range all {
		j.strays, j.odd = append(j.strays, one.strays...), append(j.odd, one.odd...)
	}
	return j
}

// page is a parsed HTML document.
type page struct {
	judged
	root   *html.Node
	policy string
	ids    map[string]bool
}

// readPage parses a document and finds violations: foreign content, active content, and
// characters that change how text is displayed.
func readPage(raw []byte) page {
	p := page{ids: map[string]bool{}}
	var err error
	if p.root, err = html.Parse(bytes.NewReader(raw)); err != nil {
		p.stray("no browser's parser reads it: %v", err)
		return p
	}
	p.characters(raw)
	for n := range p.root.Descendants() {
		p.node(n)
	}
	p.links()
	if !strings.HasPrefix(p.policy, "default-src 'none'; ") || strings.Contains(p.policy, "unsafe") {
		p.stray("its policy is %q", p.policy)
	}
	return p
}

func (p *page) node(n *html.Node) {
	switch n.Type {
	case html.CommentNode:
		p.stray("there is a comment %.200q", n.Data)
	case html.DoctypeNode:
		if n.Data != "html" || len(n.Attr) > 0 {
			p.stray("its type is %q", n.Data)
		}
	case html.ElementNode:
		if !elements[n.Data] {
			p.stray("there is an element %q, with %.300q", n.Data, fmt.Sprint(n.Attr, text(n)))
		}
		for _, a := range n.Attr {
			p.attribute(n, a)
		}
		p.special(n)
	}
}

// attribute checks an attribute of an element.
func (p *page) attribute(n *html.Node, a html.Attribute) {
	known := attributes[a.Key] || strings.HasPrefix(a.Key, "data-") || strings.HasPrefix(a.Key, "aria-")
	switch {
	case !known || a.Namespace != "":
		p.stray("the element %s has %q", n.Data, a.Key+"="+a.Val)
	case a.Key == "class":
		for class := range strings.FieldsSeq(a.Val) {
			if !className.MatchString(class) {
				p.stray("the element %s is of class %q", n.Data, class)
			}
		}
	case a.Key == "id":
		if p.ids[a.Val] {
			p.stray("two elements have the id %q", a.Val)
		}
		p.ids[a.Val] = true
	}
}

// special checks elements that are allowed in one form only.
func (p *page) special(n *html.Node) {
	switch n.Data {
	case "script", "style":
		sum := sha256.Sum256([]byte(text(n)))
		if !p.allows(n.Data+"-src", "'sha256-"+base64.StdEncoding.EncodeToString(sum[:])+"'") || len(n.Attr) > 0 {
			p.stray("there is a %s that is not ours: %.200q", n.Data, fmt.Sprint(n.Attr, text(n)))
		}
	case "meta":
		switch equiv := value(n, "http-equiv"); {
		case equiv == "Content-Security-Policy" && p.policy == "":
			p.policy = value(n, "content")
		case equiv != "":
			p.stray("a meta element stands for %q, %q", equiv, value(n, "content"))
		}
	case "link":
		if value(n, "rel") != "icon" || value(n, "href") != "data:," {
			p.stray("a link is %q", fmt.Sprint(n.Attr))
		}
	}
}

// allows reports whether a directive of the page's policy contains a source.
func (p *page) allows(directive, source string) bool {
	for one := range strings.SplitSeq(p.policy, ";") {
		if words := strings.Fields(one); len(words) > 0 && words[0] == directive {
			return slices.Contains(words[1:], source)
		}
	}
	return false
}

// links finds links that leave the document and its server.
func (p *page) links() {
	for n := range p.root.Descendants() {
		href := cmp.Or(value(n, "href"), value(n, "action"))
		if href == "" || n.Data == "link" {
			continue
		}
		to, err := url.Parse(href)
		switch {
		case err != nil || to.Scheme != "" || to.Host != "" || to.Opaque != "" || strings.HasPrefix(href, "//") || strings.HasPrefix(href, `/\`):
			p.stray("a link leads to %q", href)
		case strings.HasPrefix(href, "#") && to.Fragment != "" && !p.ids[to.Fragment]:
			p.stray("a link leads to %q, which is not there", href)
		}
	}
}

// value returns the value of an attribute, or "".
func value(n *html.Node, key string) string {
	for _, a := range n.Attr {
		if a.Key == key {
			return a.Val
		}
	}
	return ""
}

// text returns all text of the page.
func (p page) text() string {
	if p.root == nil {
		return ""
	}
	return text(p.root)
}

// text returns all text below n.
func text(n *html.Node) string {
	var b strings.Builder
	for d := range n.Descendants() {
		if d.Type == html.TextNode {
			b.WriteString(d.Data)
		}
	}
	return b.String()
}
