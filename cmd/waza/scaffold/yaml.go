package scaffold

import (
	"fmt"
	"regexp"
	"strings"

	"github.com/waza-isolate/waza/internal/jsontext"
	"github.com/waza-isolate/waza/internal/text"
)

// yaml returns a value on one line of YAML, with its keys as its JSON has them. Whatever is in its
// strings, reading the result gives the value: strings are JSON's unless they are plain words.
func yaml(v any) (string, error) {
	data, err := jsontext.Marshal(v)
	if err != nil {
		return "", err
	}
	return flow(data), nil
}

// flow is [yaml] of a value that is JSON.
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
	case '"':
		return word(jsontext.Text(value))
	}
	return string(value)
}

// plainWord matches strings that are the same in YAML without quotes, in flow style too.
var plainWord = regexp.MustCompile(`^[A-Za-z_/][A-Za-z0-9_./*-]*( [A-Za-z_/][A-Za-z0-9_./*-]*)*$`)

// otherwise matches plain words that YAML, or a version of it, does not read as strings.
var otherwise = regexp.MustCompile(`(?i)^(true|false|null|yes|no|on|off|y|n)$`)

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
