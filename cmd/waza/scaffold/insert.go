package scaffold

import (
	"fmt"
	"slices"
	"strings"

	"github.com/waza-isolate/waza/internal/strictyaml"
)

// Insert adds lines of YAML as the first entry of the list or mapping at a path of an eval, which it creates
// if it is missing. It preserves everything else, including comments. If the list or mapping is in flow
// style, it returns an error with the lines to add by hand.
func Insert(file string, data []byte, at strictyaml.Path, entry string) ([]byte, error) {
	doc, err := strictyaml.Parse(file, data)
	if err != nil {
		return nil, err
	}
	lines := strings.SplitAfter(strings.TrimRight(string(data), "\n")+"\n", "\n")
	lines = lines[:len(lines)-1]
	depth := len(at) // number of keys that exist
	for depth > 0 && !doc.Has(at[:depth]...) {
		depth--
	}
	missing := at[depth:]
	indent, line := "", len(lines)
	if depth > 0 {
		key, value := doc.Key(at[:depth]...), doc.At(at[:depth]...)
		if value.Line == key.Line {
			return nil, fmt.Errorf("%s:%d: %s is written on one line: add this to it by hand:\n%s", file, key.Line, at[:depth], entry)
		}
		child := lines[value.Line-1]
		indent, line = child[:len(child)-len(strings.TrimLeft(child, " "))], key.Line
	}
	var added strings.Builder
	if depth == 0 {
		added.WriteByte('\n')
	}
	for _, step := range missing {
		fmt.Fprintf(&added, "%s%v:\n", indent, step)
		indent += "  "
	}
	for part := range strings.Lines(entry) {
		added.WriteString(indent + part)
	}
	written := []byte(strings.Join(slices.Insert(lines, line, added.String()), ""))
	_, err = strictyaml.Parse(file, written)
	return written, err
}
