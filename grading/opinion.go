package grading

import (
	"errors"
	"fmt"
	"io"
	"reflect"
	"regexp"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json"
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

// unfenced returns an answer without its fence if it is a single fenced block.
func unfenced(answer string) string {
	answer = strings.TrimSpace(answer)
	if block := fenced.FindStringSubmatch(answer); block != nil {
		return block[1]
	}
	return answer
}

// fenced matches a text that consists of a single fenced block.
var fenced = regexp.MustCompile("^```(?:json)?[ \t]*\r?\n((?s:.*?))\r?\n?```$")

// parseOpinion reads a judge's answer, which must have exactly a score and a reason.
func parseOpinion(text string) (opinion, error) {
	var o struct {
		Score  *float64 `json:"score"`
		Reason *string  `json:"reason"`
	}
	switch err := readAnswered(text, &o); {
	case err != nil:
		return opinion{}, err
	case o.Score == nil || o.Reason == nil:
		return opinion{}, errors.New("it lacks a score or a reason")
	case !(*o.Score >= 0 && *o.Score <= 1):
		return opinion{}, errors.New("its score is not a number from 0 to 1")
	}
	return opinion{*o.Score + 0, *o.Reason}, nil // avoids -0
}

// readAnswered decodes the answer of a model, which must be one JSON object, optionally in a fenced block.
// Each key must be one of into's, and may occur once.
func readAnswered(text string, into any) error {
	in := jsontext.NewDecoder(strings.NewReader(unfenced(text)), jsontext.AllowInvalidUTF8(true), json.RejectUnknownMembers(true))
	if in.PeekKind() != '{' {
		return errors.New("no JSON object")
	}
	var invalid *jsontext.SyntacticError
	var unwanted *json.SemanticError
	switch err := json.UnmarshalDecode(in, into); {
	case errors.As(err, &invalid) && errors.Is(err, jsontext.ErrDuplicateName):
		return fmt.Errorf("%s appears twice", excerpt(invalid.JSONPointer.LastToken()))
	case errors.As(err, &unwanted) && errors.Is(err, json.ErrUnknownName):
		return fmt.Errorf("it has a key %s", excerpt(unwanted.JSONPointer.LastToken()))
	case unwanted != nil && unwanted.GoType == reflect.TypeFor[float64]():
		return fmt.Errorf("its %s is not a number from 0 to 1", unwanted.JSONPointer.LastToken())
	case unwanted != nil:
		return fmt.Errorf("its %s is not a string", unwanted.JSONPointer.LastToken())
	case err != nil:
		return errors.New("no valid JSON")
	}
	if _, err := in.ReadToken(); !errors.Is(err, io.EOF) {
		return errors.New("something follows the object")
	}
	return nil
}

// maxExcerpt is the maximum number of bytes of a judge's text in a sentence.
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
