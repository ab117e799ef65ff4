package report

import (
	"bytes"
	"slices"
	"strings"
	"testing"

	"golang.org/x/net/html"
	"golang.org/x/net/html/atom"
)

// node is a part of a page that was parsed as a browser does.
type node struct{ *html.Node }

func parse(t *testing.T, pages ...Page) node {
	t.Helper()
	var out bytes.Buffer
	err := Document{Title: "t", Paged: true}.Write(&out, func(yield func(Page, error) bool) {
		for _, p := range pages {
			if !yield(p, nil) {
				return
			}
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	return parseText(t, out.String())
}

func parseText(t *testing.T, text string) node {
	t.Helper()
	root, err := html.ParseWithOptions(strings.NewReader(text), html.ParseOptionEnableScripting(false))
	if err != nil {
		t.Fatal(err)
	}
	return node{root}
}

// all are the elements that a selector fits: names and classes, with spaces or > between.
func (n node) all(selector string) (found []node) {
	steps := strings.Fields(selector)
	for d := range n.Descendants() {
		if d.Type == html.ElementNode && fits(d, steps) {
			found = append(found, node{d})
		}
	}
	return found
}

func fits(n *html.Node, steps []string) bool {
	last := len(steps) - 1
	if !isOf(n, steps[last]) {
		return false
	}
	if last == 0 {
		return true
	}
	if steps[last-1] == ">" {
		return fits(n.Parent, steps[:last-1])
	}
	for up := n.Parent; up != nil; up = up.Parent {
		if up.Type == html.ElementNode && fits(up, steps[:last]) {
			return true
		}
	}
	return false
}

func isOf(n *html.Node, step string) bool {
	name, class, _ := strings.Cut(step, ".")
	return (name == "" || name == "*" || n.Data == name) && (class == "" || slices.Contains(strings.Fields(node{n}.attr("class")), class))
}

func (n node) attr(name string) string {
	for _, a := range n.Attr {
		if a.Key == name {
			return a.Val
		}
	}
	return ""
}

func (n node) attrs(selector, name string) (values []string) {
	for _, found := range n.all(selector) {
		values = append(values, found.attr(name))
	}
	return values
}

// flat is the text that is seen, with single spaces.
func (n node) flat() string {
	var out strings.Builder
	var walk func(*html.Node)
	walk = func(n *html.Node) {
		if n.Type == html.ElementNode && (n.DataAtom == atom.Style || n.DataAtom == atom.Script || slices.Contains(strings.Fields(node{n}.attr("class")), "unseen")) {
			return
		}
		if n.Type == html.TextNode {
			out.WriteString(n.Data)
		}
		for c := range n.ChildNodes() {
			walk(c)
		}
		switch n.DataAtom {
		case atom.P, atom.Li, atom.Td, atom.Th, atom.Dt, atom.Dd, atom.Div, atom.Svg:
			out.WriteByte(' ')
		}
		if n.DataAtom == atom.Span && !strings.Contains(node{n}.attr("class"), "numbers") && n.Parent.DataAtom == atom.Li {
			out.WriteByte(' ')
		}
	}
	walk(n.Node)
	return strings.Join(strings.Fields(out.String()), " ")
}

// text is that of all elements that a selector fits.
func (n node) text(selector string) string { return strings.Join(n.texts(selector), " ") }

func (n node) texts(selector string) (texts []string) {
	for _, found := range n.all(selector) {
		texts = append(texts, found.flat())
	}
	return texts
}
