package attacks

import (
	"bytes"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/yuin/goldmark"
	"github.com/yuin/goldmark/extension"
	render "github.com/yuin/goldmark/renderer/html"
	"golang.org/x/net/html"
)

// suites are the allowed elements of a JUnit file.
var suites = words("testsuites testsuite properties property testcase failure error skipped system-out system-err")

// readJUnit finds foreign content of a JUnit file: elements and attributes that waza does
// not write, anything but elements and text, and characters that parsers reject.
func readJUnit(raw []byte) (j judged) {
	in := xml.NewDecoder(bytes.NewReader(raw))
	j.characters(raw)
	for {
		token, err := in.Token()
		if errors.Is(err, io.EOF) {
			return j
		}
		if err != nil {
			j.stray("no parser reads it: %v, at %q", err, around(raw, int(in.InputOffset())))
			return j
		}
		switch t := token.(type) {
		case xml.StartElement:
			if !suites[t.Name.Local] || t.Name.Local == "testcase" && strings.Contains(fmt.Sprint(t.Attr), "-mark") {
				j.stray("there is an element %q", fmt.Sprint(t))
			}
		case xml.Comment, xml.Directive:
			j.stray("there is %T, %.200q", t, t)
		case xml.ProcInst:
			if t.Target != "xml" {
				j.stray("there is an instruction %q", t.Target)
			}
		}
	}
}

// comments are the allowed elements of a pull request comment.
var comments = words("html head body h3 h4 p strong sub sup table thead tbody tr th td details summary code pre br")

// readMarkdown finds foreign content of a comment as rendered by GitHub, and marks outside
// of code, where URLs and user names would become links.
func readMarkdown(raw []byte) (j judged) {
	j.characters(raw)
	var out bytes.Buffer
	gfm := goldmark.New(goldmark.WithExtensions(extension.GFM, extension.Footnote), goldmark.WithRendererOptions(render.WithUnsafe()))
	if err := gfm.Convert(raw, &out); err != nil {
		j.stray("it cannot be rendered: %v", err)
		return j
	}
	root, err := html.Parse(&out)
	if err != nil {
		j.stray("it cannot be rendered: %v", err)
		return j
	}
	for n := range root.Descendants() {
		switch {
		case n.Type == html.CommentNode && n.Data != " ":
			j.stray("there is a comment %.200q", n.Data)
		case n.Type == html.ElementNode && (!comments[n.Data] || strings.Contains(fmt.Sprint(n.Attr), "-mark")):
			j.stray("there is an element %q, with %.300q", n.Data, fmt.Sprint(n.Attr, text(n)))
		case n.Type == html.TextNode && strings.Contains(n.Data, "-mark") && !within(n, "code", "pre"):
			j.stray("outside of code stands %.300q", n.Data)
		}
	}
	return j
}

func within(n *html.Node, names ...string) bool {
	for above := range n.Ancestors() {
		for _, name := range names {
			if above.Type == html.ElementNode && above.Data == name {
				return true
			}
		}
	}
	return false
}
