package report

import (
	"fmt"
	"html/template"
	"regexp"
	"strings"

	"github.com/yuin/goldmark"
	"github.com/yuin/goldmark/ast"
	"github.com/yuin/goldmark/extension"
	tables "github.com/yuin/goldmark/extension/ast"
	source "github.com/yuin/goldmark/text"
	"github.com/yuin/goldmark/util"

	"github.com/waza-isolate/waza/internal/text"
)

// Limits on texts rendered as Markdown. Longer and more deeply nested ones are shown as
// plain text.
const (
	maxMarkdown       = 8 << 10 // bytes
	maxMarkdownTrial  = 8 * maxMarkdown
	maxMarkdownAll    = 128 * maxMarkdown // of a document
	maxMarkdownNested = 40
	maxMarkdownLinks  = 200
)

// nested matches a line that begins with so many markers that parsing it takes quadratic
// time.
var nested = regexp.MustCompile(`(?m)^[ \t>*+\-0-9.)]{100}`)

// looksLaid matches features of Markdown that other texts rarely have.
var looksLaid = regexp.MustCompile("(?m)^#+ |^```|^ *[*-] |^> |\\*\\*|^\\|.*\\|$")

// layingOut returns the cost of rendering a text as a number of bytes; for a text of the maximum length, it
// is about that length. The parser takes quadratic time for hostile texts: 50 ms for the longest.
func layingOut(raw string) int { return 1 + len(raw)*len(raw)/maxMarkdown }

var markdownParser = goldmark.New(goldmark.WithExtensions(extension.Table, extension.Strikethrough)).Parser()

// markdown returns a text, together with its rendering as Markdown if that differs and fits.
func (b *budget) markdown(raw string) Text {
	shown := b.show(raw)
	if shown.Left > 0 {
		return shown
	}
	if len(raw) > maxMarkdown || layingOut(raw) > b.laid || strings.Count(raw, "](") > maxMarkdownLinks || nested.MatchString(raw) {
		shown.Unlaid = looksLaid.MatchString(raw)
		return shown
	}
	b.laid -= layingOut(raw)
	r := richText{source: []byte(tidy(raw, maxMarkdown))}
	r.all(markdownParser.Parse(source.NewReader(r.source)), 0)
	if r.rich && !r.deep && r.out.Len() <= b.total {
		b.total -= r.out.Len()
		shown.Markdown = template.HTML(r.out.String())
	}
	return shown
}

// richText renders Markdown as HTML. It writes only elements of its own: raw HTML is text,
// and links and images show their target but are not links.
type richText struct {
	source []byte
	out    strings.Builder
	rich   bool // there is markup
	deep   bool // nesting is too deep
}

// write writes an untrusted text in visible form.
func (r *richText) write(s []byte) {
	r.out.WriteString(template.HTMLEscapeString(text.VisibleLines(string(s))))
}

// lines writes the lines of a block verbatim.
func (r *richText) lines(n ast.Node) {
	for _, line := range n.Lines().Sliced(0, n.Lines().Len()) {
		r.write(line.Value(r.source))
	}
}

// all writes the children of a node, within the start and end tags of an element.
func (r *richText) all(n ast.Node, depth int, tags ...string) {
	if r.deep = r.deep || depth > maxMarkdownNested; r.deep {
		return
	}
	if len(tags) == 2 {
		r.out.WriteString(tags[0])
		defer r.out.WriteString(tags[1])
	}
	for child := n.FirstChild(); child != nil; child = child.NextSibling() {
		switch child.Kind() {
		case ast.KindParagraph, ast.KindText, ast.KindHTMLBlock, ast.KindRawHTML, ast.KindAutoLink, ast.KindLinkReferenceDefinition:
		default:
			r.rich = true
		}
		r.node(child, depth+1)
	}
}

func (r *richText) node(n ast.Node, depth int) {
	switch n := n.(type) {
	case *ast.Paragraph:
		r.all(n, depth, "<p>", "</p>")
	case *ast.Heading:
		r.all(n, depth, `<p class="heading">`, "</p>")
	case *ast.ThematicBreak:
		r.out.WriteString("<hr>")
	case *ast.Blockquote:
		r.all(n, depth, "<blockquote>", "</blockquote>")
	case *ast.List:
		if n.IsOrdered() {
			r.all(n, depth, fmt.Sprintf(`<ol start="%d">`, n.Start), "</ol>")
		} else {
			r.all(n, depth, "<ul>", "</ul>")
		}
	case *ast.ListItem:
		r.all(n, depth, "<li>", "</li>")
	case *ast.CodeBlock, *ast.FencedCodeBlock:
		r.out.WriteString(`<pre tabindex="0">` + "\n")
		r.lines(n)
		r.out.WriteString("</pre>")
	case *ast.HTMLBlock:
		r.out.WriteString("<p>")
		r.lines(n)
		if n.HasClosure() {
			r.write(n.ClosureLine.Value(r.source))
		}
		r.out.WriteString("</p>")
	case *ast.LinkReferenceDefinition:
		r.out.WriteString("<p>")
		r.lines(n)
		r.out.WriteString("</p>")
	case *tables.Table:
		r.all(n, depth, `<div class="table" tabindex="0"><table>`, "</table></div>")
	case *tables.TableHeader, *tables.TableRow:
		r.all(n, depth, "<tr>", "</tr>")
	case *tables.TableCell:
		if n.Parent().Kind() == tables.KindTableHeader {
			r.all(n, depth, `<th scope="col">`, "</th>")
		} else {
			r.all(n, depth, "<td>", "</td>")
		}
	case *ast.Text:
		r.text(n)
	case *ast.String:
		r.write(n.Value)
	case *ast.CodeSpan:
		r.all(n, depth, "<code>", "</code>")
	case *ast.Emphasis:
		tag := map[bool]string{false: "em>", true: "strong>"}[n.Level == 2]
		r.all(n, depth, "<"+tag, "</"+tag)
	case *tables.Strikethrough:
		r.all(n, depth, "<del>", "</del>")
	case *ast.Link:
		r.all(n, depth)
		r.to(n.Destination)
	case *ast.Image:
		r.out.WriteString("image: ")
		r.all(n, depth)
		r.to(n.Destination)
	case *ast.AutoLink:
		r.write(n.Label(r.source))
	case *ast.RawHTML:
		for _, part := range n.Segments.Sliced(0, n.Segments.Len()) {
			r.write(part.Value(r.source))
		}
	default:
		r.all(n, depth)
	}
}

// text writes a text. Character references and escapes are resolved, except in code.
func (r *richText) text(n *ast.Text) {
	value := n.Segment.Value(r.source)
	if !n.IsRaw() {
		value = util.ResolveEntityNames(util.ResolveNumericReferences(util.UnescapePunctuations(value)))
	}
	r.write(value)
	switch {
	case n.HardLineBreak():
		r.out.WriteString("<br>")
	case n.SoftLineBreak():
		r.out.WriteString("\n")
	}
}

// to writes the target of a link.
func (r *richText) to(destination []byte) {
	r.out.WriteString(" (")
	r.write(destination)
	r.out.WriteString(")")
}
