package grading

import (
	"errors"
	"fmt"
	"io"
	"regexp"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/waza-isolate/waza/internal/text"
)

// opinion is the answer of a judge.
type opinion struct {
	Score  float64 `json:"score"` // 0 to 1
	Reason string  `json:"reason"`
}

// opinionSchema is the JSON Schema of an [opinion]. It has no numeric limits, since
// endpoints that enforce schemas do not support them.
const opinionSchema = `{"type":"object","properties":{"score":{"type":"number","description":"from 0 to 1"},"reason":{"type":"string"}},"required":["score","reason"],"additionalProperties":false}`

// unfenced returns an answer without the fence around it, if it is one fenced block.
func unfenced(answer string) string {
	answer = strings.TrimSpace(answer)
	if block := fenced.FindStringSubmatch(answer); block != nil {
		return block[1]
	}
	return answer
}

// fenced matches a text that is one fenced block and nothing else.
var fenced = regexp.MustCompile("^```(?:json)?[ \t]*\r?\n((?s:.*?))\r?\n?```$")

// parseOpinion reads a judge's answer, which has exactly a score and a reason.
func parseOpinion(text string) (opinion, error) {
	var o opinion
	seen, err := readAnswered(text, o.set)
	if err == nil && (!seen["score"] || !seen["reason"]) {
		err = errors.New("it lacks a score or a reason")
	}
	return o, err
}

// readAnswered decodes the answer of a model, which must be one JSON object, optionally in
// a fenced block. It calls set for each key with the first token of its value. Duplicate
// keys are an error. set must reject values that are not scalars.
func readAnswered(text string, set func(key string, value jsontext.Token) error) (seen map[string]bool, err error) {
	in := jsontext.NewDecoder(strings.NewReader(unfenced(text)), jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))
	seen = map[string]bool{}
	if token, err := in.ReadToken(); err != nil || token.Kind() != '{' {
		return nil, errors.New("no JSON object")
	}
	for in.PeekKind() != '}' {
		key, err := in.ReadToken()
		if err != nil {
			return nil, errors.New("no valid JSON")
		}
		name := key.String()
		value, err := in.ReadToken()
		switch {
		case err != nil:
			return nil, errors.New("no valid JSON")
		case seen[name]:
			return nil, fmt.Errorf("%s appears twice", excerpt(name))
		}
		seen[name] = true
		if err := set(name, value); err != nil {
			return nil, err
		}
	}
	_, _ = in.ReadToken() // the object's end
	if _, err := in.ReadToken(); !errors.Is(err, io.EOF) {
		return nil, errors.New("something follows the object")
	}
	return seen, nil
}

func (o *opinion) set(name string, value jsontext.Token) error {
	switch name {
	case "score":
		score, err := strconv.ParseFloat(value.String(), 64)
		if value.Kind() != '0' || err != nil || !(score >= 0 && score <= 1) {
			return errors.New("its score is not a number from 0 to 1")
		}
		o.Score = score + 0 // -0 is 0
	case "reason":
		if value.Kind() != '"' {
			return errors.New("its reason is not a string")
		}
		o.Reason = value.String()
	default:
		return fmt.Errorf("it has a key %s", excerpt(name))
	}
	return nil
}

// maxExcerpt is how many bytes of a judge's text a sentence shows.
const maxExcerpt = 300

// excerpt returns the beginning of a foreign text, quoted.
func excerpt(s string) string { return text.Quote(s, maxExcerpt) }

// clean replaces characters that are not printable with spaces.
func clean(s string) string {
	return strings.Map(func(r rune) rune {
		if !strconv.IsPrint(r) {
			return ' '
		}
		return r
	}, s)
}
