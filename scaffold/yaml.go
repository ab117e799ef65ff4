package scaffold

import (
	"fmt"
	"regexp"
	"strings"

	"github.com/waza-isolate/waza/internal/jsontext"
	"github.com/waza-isolate/waza/internal/text"
)

// Comments are comments of a file by the path of the key that they stand above, such as
// config.executor. The comment of "" stands above all.
type Comments map[string]string

// YAML returns a value as YAML, with its keys as its JSON has them and comments. Whatever is in its
// strings, reading the result gives the value: strings are JSON's unless they are plain words.
func YAML(v any, comments Comments) ([]byte, error) {
	data, err := jsontext.Marshal(v)
	if err != nil {
		return nil, err
	}
	w := &yamlWriter{comments: comments}
	w.comment("", 0)
	w.mapping(data, "", 0)
	return []byte(w.out.String()), nil
}

type yamlWriter struct {
	out      strings.Builder
	comments Comments
}

func (w *yamlWriter) comment(path string, indent int) {
	for line := range strings.Lines(w.comments[path]) {
		fmt.Fprintf(&w.out, "%s# %s\n", strings.Repeat("  ", indent), text.Inert(strings.TrimSuffix(line, "\n")))
	}
}

// mapping writes the members of an object, each on lines of its own. The path of its key may be
// "".
func (w *yamlWriter) mapping(object []byte, path string, indent int) {
	for key, value := range jsontext.Members(object) {
		at := strings.TrimPrefix(path+"."+key, ".")
		if indent == 0 && w.out.Len() > 0 && (isNested(value, indent) || w.comments[at] != "") {
			w.out.WriteByte('\n')
		}
		w.comment(at, indent)
		w.out.WriteString(strings.Repeat("  ", indent) + word(key) + ":")
		w.value(value, at, indent)
	}
}

// value writes what stands behind a key.
func (w *yamlWriter) value(value []byte, path string, indent int) {
	switch {
	case !isNested(value, indent):
		w.out.WriteString(" " + flow(value) + "\n")
	case value[0] == '{':
		w.out.WriteByte('\n')
		w.mapping(value, path, indent+1)
	default:
		w.out.WriteByte('\n')
		for item := range jsontext.Elements(value) {
			w.item(item, path, indent+1)
		}
	}
}

// item writes an item of a list.
func (w *yamlWriter) item(item []byte, path string, indent int) {
	if len(flow(item)) <= maxFlow || item[0] != '{' {
		w.out.WriteString(strings.Repeat("  ", indent) + "- " + flow(item) + "\n")
		return
	}
	inner := &yamlWriter{comments: w.comments}
	inner.mapping(item, path, indent+1)
	lines := strings.TrimLeft(inner.out.String(), "\n ")
	w.out.WriteString(strings.Repeat("  ", indent) + "- " + lines)
}

// maxFlow is how long a value may be that is written on the line of its key.
const maxFlow = 90

// isNested reports whether the value of a key is written in lines of its own: an object or a list
// that is long, or is near the top of the file and holds others.
func isNested(value []byte, indent int) bool {
	if value[0] != '{' && value[0] != '[' || len(value) == len("{}") {
		return false
	}
	return len(flow(value)) > maxFlow || indent < 2 && jsontext.Depth(value) > 1
}

// flow returns a value on one line.
func flow(value []byte) string {
	var parts []string
	switch value[0] {
	case '{':
		for key, member := range jsontext.Members(value) {
			parts = append(parts, word(key)+": "+flow(member))
		}
		return "{" + strings.Join(parts, ", ") + "}"
	case '[':
		for item := range jsontext.Elements(value) {
			parts = append(parts, flow(item))
		}
		return "[" + strings.Join(parts, ", ") + "]"
	}
	return scalar(value)
}

// plainWord matches strings that are the same in YAML without quotes, in flow style too.
var plainWord = regexp.MustCompile(`^[A-Za-z_/][A-Za-z0-9_./*-]*( [A-Za-z_/][A-Za-z0-9_./*-]*)*$`)

// otherwise matches plain words that YAML, or a version of it, does not read as strings.
var otherwise = regexp.MustCompile(`(?i)^(true|false|null|yes|no|on|off|y|n)$`)

// scalar returns a string as [word] does, and anything else as it is.
func scalar(value []byte) string {
	if value[0] != '"' {
		return string(value)
	}
	return word(jsontext.Text(value))
}

// word returns a string without quotes where it is the same.
func word(s string) string {
	if s == "." || plainWord.MatchString(s) && !otherwise.MatchString(s) {
		return s
	}
	return quoted(s)
}

// quoted returns a string as JSON, which is YAML, with all that is not printable ASCII escaped.
func quoted(s string) string {
	data, _ := jsontext.Marshal(s) // a string always marshals
	var b strings.Builder
	for _, r := range string(data) {
		switch {
		case r < ' ' || r == 0x7f || r > 0xffff || r > 0x7e && text.Hidden(r) || r == 0xfeff:
			fmt.Fprintf(&b, `\U%08x`, r)
		default:
			b.WriteRune(r)
		}
	}
	return b.String()
}
