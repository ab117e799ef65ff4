package gateway

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"io"
	"strings"

	"github.com/waza-isolate/waza/internal/jsontext"
	"github.com/waza-isolate/waza/model/dialect"
)

// digest returns a SHA-256 of a request as rec keeps it, since a digest of the original could
// be used to confirm guesses about redacted parts. It is the same for equivalent requests. For
// a JSON object, it ignores the members in identities, replaces variable parts of strings (see
// steadyText), and uses canonical form. Other bodies are hashed unchanged.
func digest(rec Recorder, method, path string, body []byte) string {
	sum := sha256.New() // hashes and buffers take everything
	_, _ = io.WriteString(sum, method+"\n")
	_ = rec.Clean(sum, []byte(path))
	_, _ = io.WriteString(sum, "\n")
	if len(body) > maxNormal {
		_ = rec.Clean(sum, body)
	} else {
		var kept bytes.Buffer
		_ = rec.Clean(&kept, body)
		_, _ = sum.Write(normal(kept.Bytes()))
	}
	return hex.EncodeToString(sum.Sum(nil))
}

// maxNormal is the maximum size of a body that is normalized. Larger ones, and those with
// too many values, are hashed unchanged.
const maxNormal = 16 << 20

// identities returns the members of a request's object that name the user or the conversation
// and that no model sees.
func identities() []string {
	return []string{"client_metadata", "metadata", "prompt_cache_key", "safety_identifier", "session_id", "user", "user_prompt_id"}
}

func normal(body []byte) []byte {
	if len(body) > maxNormal || dialect.HasTooMany(body) {
		return body
	}
	value, err := jsontext.Parse(body)
	object, ok := value.(map[string]any)
	if err != nil || !ok {
		return body
	}
	for _, name := range identities() {
		delete(object, name)
	}
	return []byte(jsontext.Form(steady(object)))
}

// steady returns v with what varies in its strings replaced. Keys stay.
func steady(v any) any {
	switch v := v.(type) {
	case map[string]any:
		for key, item := range v {
			v[key] = steady(item)
		}
	case []any:
		for i, item := range v {
			v[i] = steady(item)
		}
	case string:
		return steadyText(v)
	}
	return v
}

// steadyText returns text with words in place of what differs each time: UUIDs, dates as
// 2006-01-02 with or without a time, and ports of this machine.
func steadyText(text string) string {
	var out strings.Builder
	done := 0
	for i := 0; i < len(text); {
		next := strings.IndexAny(text[i:], "-:")
		if next < 0 {
			break
		}
		i += next
		start, end, word := varyingAt(text, i)
		if end == 0 || start < done {
			i++
			continue
		}
		out.WriteString(text[done:start])
		out.WriteString(word)
		done, i = end, end
	}
	if done == 0 {
		return text
	}
	out.WriteString(text[done:])
	return out.String()
}

// varyingAt finds what varies around the hyphen or colon at i; end is 0 if nothing does.
func varyingAt(text string, i int) (start, end int, word string) {
	if text[i] == ':' {
		return portAt(text, i)
	}
	if start = i - 8; fits(text, start, "xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx") {
		return start, start + 36, "UUID"
	}
	if start = i - 4; fits(text, start, "0000-00-00") && !fits(text, start-1, "0") {
		return start, timeBehind(text, start+10), "DATE"
	}
	return 0, 0, ""
}

// timeBehind returns the end of a date whose day ends at i, including a time if it has one.
func timeBehind(text string, i int) int {
	if !fits(text, i, "T00:00") && !fits(text, i, " 00:00") {
		return i
	}
	i += 6
	if fits(text, i, ":00") {
		i += 3
		if fits(text, i, ".0") {
			for i++; fits(text, i, "0"); i++ {
			}
		}
	}
	switch {
	case fits(text, i, "Z"):
		i++
	case fits(text, i, "+00:00"), fits(text, i, "-00:00"):
		i += 6
	}
	return i
}

// portAt finds the port behind the colon at i of an address of this machine.
func portAt(text string, i int) (start, end int, word string) {
	if !strings.HasSuffix(text[:i], "127.0.0.1") && !strings.HasSuffix(text[:i], "localhost") {
		return 0, 0, ""
	}
	for end = i + 1; fits(text, end, "0"); end++ {
	}
	if end == i+1 {
		return 0, 0, ""
	}
	return i + 1, end, "PORT"
}

// fits reports whether text matches a pattern at i, in which 0 is a digit, x a hexadecimal
// digit, and any other byte itself.
func fits(text string, i int, pattern string) bool {
	if i < 0 || i+len(pattern) > len(text) {
		return false
	}
	for n := range len(pattern) {
		c := text[i+n]
		digit := c >= '0' && c <= '9'
		switch pattern[n] {
		case '0':
			if !digit {
				return false
			}
		case 'x':
			if lower := c | 0x20; !digit && (lower < 'a' || lower > 'f') {
				return false
			}
		case c:
		default:
			return false
		}
	}
	return true
}
