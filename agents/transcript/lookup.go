package transcript

import (
	"encoding/json"
	"iter"
	"strings"

	"github.com/waza-isolate/waza/capture"
	"github.com/waza-isolate/waza/internal/jsontext"
)

// in yields what of a line the rule applies to: the line, or the items of its list.
func (r Rule) in(line []byte) iter.Seq[[]byte] {
	return func(yield func([]byte) bool) {
		if !has(line, r.When) {
			return
		}
		if r.Each == "" {
			yield(line)
			return
		}
		for item := range jsontext.Elements(lookup(line, r.Each)) {
			if has(item, r.Where) && !yield(item) {
				return
			}
		}
	}
}

// has reports whether value has all that is wanted, by path.
func has(value []byte, want map[string]any) bool {
	for path, wanted := range want {
		found := lookup(value, path)
		if len(found) == 0 || found[0] == '{' || found[0] == '[' || !capture.Equal(literal(wanted), found) {
			return false
		}
	}
	return true
}

// tells reports whether something stands at each of the paths.
func tells(value []byte, paths map[string]any) bool {
	for path := range paths {
		if lookup(value, path) == nil {
			return false
		}
	}
	return true
}

// lookup finds what stands at a path in valid JSON; nil where nothing does, or the
// path is empty. Of a key that comes twice the last value counts.
func lookup(value []byte, path string) json.RawMessage {
	if path == "" {
		return nil
	}
	for segment := range strings.SplitSeq(path, ".") {
		if value = step(value, segment); value == nil {
			return nil
		}
	}
	return value
}

func step(value []byte, segment string) (found []byte) {
	for key, member := range jsontext.Members(value) {
		if key == segment {
			found = member
		}
	}
	if at, ok := index(segment); ok && found == nil {
		i := 0
		for item := range jsontext.Elements(value) {
			if i == at {
				return item
			}
			i++
		}
	}
	return found
}

// scalar is a string, or a number as it is written; empty for anything else.
func scalar(raw []byte) string {
	if len(raw) > 0 && (raw[0] == '-' || raw[0] >= '0' && raw[0] <= '9') {
		return string(raw)
	}
	return jsontext.Text(raw)
}
