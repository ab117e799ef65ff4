// Package yamltext formats JSON values as YAML, with keys in their order. Parsing the result gives
// the same value, whatever its strings contain: strings are written as in JSON, unless they are
// plain words or lines of plain text.
package yamltext

import (
	"fmt"
	"regexp"
	"strings"

	"github.com/waza-isolate/waza/internal/jsontext"
	"github.com/waza-isolate/waza/internal/text"
)

// Flow returns a value on one line.
func Flow(value []byte) string {
	var parts []string
	switch value[0] {
	case '{':
		for key, member := range jsontext.Members(value) {
			parts = append(parts, Word(key)+": "+Flow(member))
		}
		return "{" + strings.Join(parts, ", ") + "}"
	case '[':
		for item := range jsontext.Elements(value) {
			parts = append(parts, Flow(item))
		}
		return "[" + strings.Join(parts, ", ") + "]"
	case '"':
		return Word(jsontext.Text(value))
	}
	return string(value)
}

// maxWidth is the maximum width of an object or a list on one line of a [Block], in bytes.
const maxWidth = 110

// Block returns an object in block style, with short values on one line each.
func Block(object []byte) []byte {
	var b strings.Builder
	members(&b, object, "", "")
	b.WriteByte('\n')
	return []byte(b.String())
}

// members writes the members of an object. The first follows the current line.
func members(b *strings.Builder, object []byte, indent, first string) {
	before := first
	for key, member := range jsontext.Members(object) {
		b.WriteString(before + Word(key) + ":")
		below(b, member, indent)
		before = "\n" + indent
	}
}

// below writes a value after its key, which is indented by indent, or after its dash.
func below(b *strings.Builder, value []byte, indent string) {
	line := Flow(value)
	inner := indent + "  "
	switch {
	case value[0] == '"':
		b.WriteString(" " + textBelow(jsontext.Text(value), line, inner))
	case len(value) == 2 || value[0] != '{' && value[0] != '[' || len(indent)+len(line) <= maxWidth:
		b.WriteString(" " + line)
	case value[0] == '{':
		members(b, value, inner, "\n"+inner)
	default:
		for item := range jsontext.Elements(value) {
			b.WriteString("\n" + indent + "-")
			if item[0] == '{' && len(item) > 2 && len(indent)+len(Flow(item)) > maxWidth {
				members(b, item, inner, " ")
				continue
			}
			below(b, item, inner)
		}
	}
}

// unclear matches text that a literal block would not show or not preserve.
var unclear = regexp.MustCompile(`^[ \t\n]|(?m:[ \t]$)|[\t\r]|\n\n\z|[\x{85}\x{2028}\x{2029}]`)

// textBelow returns a string of several lines as a literal block if that preserves it, and other
// strings on one line.
func textBelow(s, line, indent string) string {
	if !strings.Contains(s, "\n") || unclear.MatchString(s) || strings.ContainsFunc(s, func(r rune) bool { return r != '\n' && escapes(r) }) {
		return line
	}
	head := "|-"
	if whole, ends := strings.CutSuffix(s, "\n"); ends {
		s, head = whole, "|"
	}
	for part := range strings.SplitSeq(s, "\n") {
		head += "\n"
		if part != "" {
			head += indent + part
		}
	}
	return head
}

// plainWord matches strings that YAML reads unchanged without quotes, even in flow style.
var plainWord = regexp.MustCompile(`^[A-Za-z_/][A-Za-z0-9_./*-]*( [A-Za-z_/][A-Za-z0-9_./*-]*)*$`)

// otherwise matches plain words that YAML, or a version of it, does not read as strings.
var otherwise = regexp.MustCompile(`(?i)^(true|false|null|yes|no|on|off|y|n)$`)

// Word returns a string without quotes if YAML reads it unchanged.
func Word(s string) string {
	if s == "." || plainWord.MatchString(s) && !otherwise.MatchString(s) {
		return s
	}
	return Quoted(s)
}

// Quoted returns a string as JSON, which is also YAML, with all characters except printable ASCII
// escaped.
func Quoted(s string) string {
	data, _ := jsontext.Marshal(s) // a string always marshals
	var b strings.Builder
	for _, r := range string(data) {
		if escapes(r) {
			fmt.Fprintf(&b, `\U%08x`, r)
		} else {
			b.WriteRune(r)
		}
	}
	return b.String()
}

// escapes reports whether a character is not written as itself.
func escapes(r rune) bool {
	return r < ' ' || r == 0x7f || r > 0xffff || r > 0x7e && text.Hidden(r) || r == 0xfeff
}
