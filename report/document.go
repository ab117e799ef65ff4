// Package report renders runs as HTML pages, in one file or served over HTTP.
//
// The pages show untrusted data. All of it is escaped by html/template and, if it is a
// single line or could change the text direction, made visible by internal/text. The only
// scripts and styles are the package's own, allowed by hash in a Content-Security-Policy.
// The package reads run directories and knows no engine, network or process.
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
)

// Document is an HTML document: a single page, or a file of pages of which one is visible
// at a time.
type Document struct {
	Title string
	Nav   []NavItem
	Note  string // shown at the top of every page; concerns all of them
	Paged bool   // there may be several pages
	// Served reports that the page comes from a server, to which its forms may send requests.
	Served bool
}

// NavItem is a link shown on every page.
type NavItem struct {
	Text string
	Path string // path of the page, to mark the current one
	To   template.URL
}

// Page is one page.
type Page struct {
	ID    string
	Title string
	name  string // name of its template
	data  any
}

var pages = sync.OnceValue(func() *template.Template {
	return template.Must(template.New("").Funcs(funcs).ParseFS(files, "templates/*.html"))
})

// Write writes the document, holding one page at a time. It returns errors of pages and of
// w.
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

//go:embed assets templates
var files embed.FS

// Styles and scripts of the pages, concatenated in order of their file names. The early
// script runs before any page is parsed, the other after all of them.
var (
	style  = sync.OnceValue(func() string { return joined("assets/*.css") })
	early  = sync.OnceValue(func() string { return joined("assets/early.js") })
	script = sync.OnceValue(func() string { return joined("assets/[0-9]*.js") })
)

func joined(pattern string) string {
	names, err := fs.Glob(files, pattern)
	if err != nil {
		panic(err) // the pattern is constant
	}
	var all strings.Builder
	for _, name := range names {
		content, err := files.ReadFile(name)
		if err != nil {
			panic(err) // the file is embedded
		}
		all.Write(content)
	}
	return all.String()
}

// Policy returns the Content-Security-Policy of the pages: only their own style and
// scripts, by hash, and no other sources. Forms of served pages may send requests to their server.
func Policy(served bool) string {
	parts := []string{
		"default-src 'none'", "style-src " + hashed(style()), "script-src " + hashed(early()) + " " + hashed(script()),
		"img-src data:", "base-uri 'none'",
	}
	if served {
		parts = append(parts, "form-action 'self'")
	} else {
		parts = append(parts, "form-action 'none'")
	}
	return strings.Join(parts, "; ")
}

func hashed(source string) string {
	sum := sha256.Sum256([]byte(source))
	return "'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) + "'"
}
