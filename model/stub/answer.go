package stub

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"strings"

	"github.com/waza-isolate/waza/model/dialect"
)

// answer is what the model answers, before it takes a dialect's shape.
type answer struct {
	mark   mark
	digest string // of the request
	model  string
	text   string
	uses   []use
	usage  dialect.Usage
}

// use is a call of an offered tool.
type use struct {
	tool      offered
	arguments json.RawMessage
}

// created is when every answer was made, in seconds of Unix time: answers to the same
// request are the same.
const created = 1_700_000_000

// newAnswer is an answer to r that says text.
func newAnswer(r *request, m mark, text string) answer {
	a := answer{mark: m, digest: r.digest(), model: r.Model, text: text}
	return a.counted(r)
}

// counted is a with its tokens counted.
func (a answer) counted(r *request) answer {
	size := int64(len(a.text))
	for _, u := range a.uses {
		size += int64(len(u.tool.full()) + len(u.arguments))
	}
	a.usage = dialect.Usage{Input: tokens(r.size), Output: tokens(size)}
	return a
}

// tokens is how many tokens a text of size bytes has, roughly.
func tokens(size int64) int64 { return max(1, (size+3)/4) }

// id is the id of the answer as a whole.
func (a answer) id(prefix string) string { return a.mark.id(prefix, a.digest) }

// idOf is the id of the nth use.
func (a answer) idOf(prefix string, n int) string { return a.mark.of(n+1).id(prefix, a.digest) }

// digest tells requests with different histories apart, however they are streamed.
func (r *request) digest() string {
	hash := sha256.New()
	for _, item := range r.Items {
		text, _ := json.Marshal(item) // what was read encodes
		if r.clean != nil {
			text = r.clean(text)
		}
		hash.Write(append(text, '\n'))
	}
	return hex.EncodeToString(hash.Sum(nil)[:6])
}

// words are text in pieces, each a word with what is before it.
func words(text string) []string {
	var all []string
	for text != "" {
		start := len(text) - len(strings.TrimLeft(text, " \n"))
		end := strings.IndexAny(text[start:], " \n")
		if end < 0 {
			return append(all, text)
		}
		all = append(all, text[:start+end])
		text = text[start+end:]
	}
	return all
}

// pieces are arguments in parts of a few characters.
func pieces(arguments json.RawMessage) []string {
	const size = 12
	var all []string
	runes := []rune(string(arguments))
	for start := 0; start < len(runes); start += size {
		all = append(all, string(runes[start:min(start+size, len(runes))]))
	}
	return all
}

// encode is v as compact JSON, with < and > as they are.
func encode(v any) ([]byte, error) {
	var out bytes.Buffer
	encoder := json.NewEncoder(&out)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(v); err != nil {
		return nil, err
	}
	return bytes.TrimSuffix(out.Bytes(), []byte("\n")), nil
}
