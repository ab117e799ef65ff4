// Package report renders runs as HTML pages, in one file or served.
//
// What it shows was captured of strangers. All of it goes through html/template and, where
// it is of one line or could change the order of what is shown, through internal/visible;
// the only script and style are our own, named by hash in a Content-Security-Policy. It
// reads run directories and knows no engine, network or process.
package report

import (
	"bufio"
	"crypto/sha256"
	"embed"
	"encoding/base64"
	"html/template"
	"io"
	"io/fs"
	"iter"
	"strings"
	"sync"
	plain "text/template"

	"github.com/waza-isolate/waza/internal/defence"
)

// Document is one HTML document: a single page, or a file of pages of which one is seen
// at a time.
type Document struct {
	Title string
	Nav   []NavItem
	Note  string // in the head of every page: what a reader must know of all of it
	Live  string // URL of server-sent events that change the page; empty in a file
	Paged bool   // there may be several pages
	// Served says that the page is of a server, which its forms and its script may ask.
	Served bool
}

// NavItem leads to a page from every page.
type NavItem struct {
	Text string
	Path string // the page's, for telling which one is seen
	To   template.URL
}

// Page is one page.
type Page struct {
	ID    string
	Title string
	name  string // of its template
	data  any
}

var pages = sync.OnceValue(func() templates {
	if !defence.EscapedPages {
		return plain.Must(plain.New("").Funcs(funcs).ParseFS(files, "templates/*.html"))
	}
	return template.Must(template.New("").Funcs(funcs).ParseFS(files, "templates/*.html"))
})

// templates are what pages are made of.
type templates interface {
	ExecuteTemplate(w io.Writer, name string, data any) error
}

// Write writes the document, and holds one page at a time. An error is a page's or w's.
func (d Document) Write(w io.Writer, all iter.Seq2[Page, error]) error {
	out := bufio.NewWriterSize(w, 64<<10)
	head := struct {
		Document
		Policy string
		Style  template.HTML
		Script template.HTML
	}{d, Policy(d.Served), template.HTML("<style>" + style() + "</style>"), template.HTML("<script>" + early() + "</script>")}
	if err := pages().ExecuteTemplate(out, "head", head); err != nil {
		return err
	}
	for page, err := range all {
		if err == nil {
			err = page.write(out)
		}
		if err != nil {
			return err
		}
	}
	err := pages().ExecuteTemplate(out, "foot", template.HTML("<script>"+script()+"</script>"))
	if err != nil {
		return err
	}
	return out.Flush()
}

func (p Page) write(w io.Writer) error {
	if err := pages().ExecuteTemplate(w, "open", p); err != nil {
		return err
	}
	if err := pages().ExecuteTemplate(w, p.name, p.data); err != nil {
		return err
	}
	_, err := io.WriteString(w, "</section>\n")
	return err
}

// One returns a document's only page.
func One(p Page) iter.Seq2[Page, error] {
	return func(yield func(Page, error) bool) { yield(p, nil) }
}

//go:embed assets templates
var files embed.FS

// Style and scripts are all of the pages' own, each in the order of its files' names. The
// early script runs before any page is read, the other behind them all.
var (
	style  = sync.OnceValue(func() string { return joined("assets/*.css") })
	early  = sync.OnceValue(func() string { return joined("assets/early.js") })
	script = sync.OnceValue(func() string { return joined("assets/[0-9]*.js") })
)

func joined(pattern string) string {
	names, err := fs.Glob(files, pattern)
	if err != nil {
		panic(err) // the pattern is ours
	}
	var all strings.Builder
	for _, name := range names {
		content, err := files.ReadFile(name)
		if err != nil {
			panic(err) // it was embedded
		}
		all.Write(content)
	}
	return all.String()
}

// Policy returns the Content-Security-Policy of every page: our style and scripts by their
// hashes, no other, and nothing from anywhere. Pages of a server may ask that.
func Policy(served bool) string {
	if !defence.PagePolicy {
		return ""
	}
	parts := []string{
		"default-src 'none'", "style-src " + hashed(style()), "script-src " + hashed(early()) + " " + hashed(script()),
		"img-src data:", "base-uri 'none'",
	}
	if served {
		parts = append(parts, "form-action 'self'", "connect-src 'self'")
	} else {
		parts = append(parts, "form-action 'none'")
	}
	return strings.Join(parts, "; ")
}

func hashed(source string) string {
	sum := sha256.Sum256([]byte(source))
	return "'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) + "'"
}
