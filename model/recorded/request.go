package recorded

import (
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/waza-isolate/waza/internal/jsontext"
	"github.com/waza-isolate/waza/internal/text"
	"github.com/waza-isolate/waza/model/dialect"
)

// request is a request in the form in which requests are compared.
type request struct {
	form   string // kind of request; see formOf
	digest string
	parts  []part // hashed parts, in order
}

// part is a member of a request, or an item of a list in a member.
type part struct {
	at    string // such as model, messages[2] or tools[search]
	value string // its JSON
}

// maxName is the maximum length of a name in part.at, in bytes.
const maxName = 64

// read reads a request. It keeps the parts in the form that clean stores.
func read(clean func(w io.Writer, doc []byte) error, method, path string, body []byte) request {
	r := request{form: formOf(method, path, body)}
	var object map[string]any
	r.digest, object = digested(clean, method, path, body)
	names := slices.SortedFunc(maps.Keys(object), func(a, b string) int {
		return 2*(rank(a)-rank(b)) + strings.Compare(a, b)
	})
	for _, name := range names {
		list, is := object[name].([]any)
		if !is {
			r.parts = append(r.parts, part{name, jsontext.Encode(object[name])})
		}
		for i, item := range list {
			at := nameOf(item) // not an index, since items are sorted
			if at == "" || len(at) > maxName || rank(name) >= 0 {
				at = strconv.Itoa(i)
			}
			r.parts = append(r.parts, part{name + "[" + at + "]", jsontext.Encode(item)})
		}
	}
	return r
}

// rank sorts the messages after all other members.
func rank(member string) int {
	return slices.Index(conversations(), member)
}

// formOf returns the kind of a request. For a model's turn it consists of the API and whether the
// request asks for a stream, has tools, and requires JSON with a schema; for others, of the method
// and path.
func formOf(method, path string, body []byte) string {
	name, isTurn := dialect.Of(method, path)
	if !isTurn {
		path, _, _ = strings.Cut(path, "?")
		return method + " " + path
	}
	form := string(name)
	asked, err := dialect.ReadRequest(name, path, body)
	if err != nil {
		return form
	}
	if asked.Stream {
		form += " stream"
	}
	if len(asked.Tools) > 0 {
		form += " tools"
	}
	if asked.Format != nil {
		form += " schema"
	}
	return form
}

// change is a part in which two requests differ.
type change struct {
	at       string
	old, new string // empty if the part is missing
}

// changes returns the differences between two requests, in the order of the second.
func changes(from, to []part) (all []change) {
	old := make(map[string]string, len(from))
	for _, p := range from {
		old[p.at] = p.value
	}
	for _, p := range to {
		if old[p.at] != p.value {
			all = append(all, change{p.at, old[p.at], p.value})
		}
		delete(old, p.at)
	}
	for _, p := range from {
		if _, gone := old[p.at]; gone {
			all = append(all, change{p.at, p.value, ""})
		}
	}
	return all
}

// String returns the change as a short diff.
func (c change) String() string {
	begin := text.Prefix(c.old, c.new)
	end := text.Prefix(reversed(c.old[begin:]), reversed(c.new[begin:]))
	show := func(sign, s string) string {
		if s == "" {
			return ""
		}
		from := max(0, begin-around)
		for from > 0 && !utf8.RuneStart(s[from]) {
			from--
		}
		shown := s[from:begin] + text.Shorten(s[begin:len(s)-end], maxShown) + text.Shorten(s[len(s)-end:], around)
		if from > 0 {
			shown = text.Ellipsis + shown
		}
		return " " + sign + " " + strings.ToValidUTF8(shown, "")
	}
	return c.at + show("-", c.old) + show("+", c.new)
}

// Maximum bytes shown of a change, and of the text around it.
const (
	maxShown = 120
	around   = 40
)

func reversed(s string) string {
	b := []byte(s)
	slices.Reverse(b)
	return string(b)
}
