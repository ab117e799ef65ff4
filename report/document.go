package report

import (
	"bufio"
	"html/template"
	"io"
	"iter"
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

// One is a document's only page.
func One(p Page) iter.Seq2[Page, error] {
	return func(yield func(Page, error) bool) { yield(p, nil) }
}
