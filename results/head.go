package results

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"github.com/go-json-experiment/json/jsontext"
)

// maxHead is how many bytes of a results.json may stand before its tasks.
const maxHead = 4 << 20

// ReadHead reads what a results.json of ours begins with: the run in figures, without
// its servers and tasks. It reads no further.
func ReadHead(r io.Reader) (Results, error) {
	var head Results
	dec := jsontext.NewDecoder(io.LimitReader(r, maxHead), jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))
	if token, err := dec.ReadToken(); err != nil || token.Kind() != '{' {
		return Results{}, errors.Join(errNoHead, err)
	}
	for dec.PeekKind() == '"' {
		token, err := dec.ReadToken()
		if err != nil {
			return Results{}, errors.Join(errNoHead, err)
		}
		key := token.String()
		to, wanted := map[string]any{
			"eval_id": &head.EvalID, "skill": &head.Skill, "eval_name": &head.EvalName, "timestamp": &head.Timestamp,
			"config": &head.Config, "summary": &head.Summary, "metrics": &head.Metrics, "labels": &head.Labels,
		}[key]
		if !wanted {
			break
		}
		value, err := dec.ReadValue()
		if err == nil {
			err = json.Unmarshal(value, to)
		}
		if err != nil {
			return Results{}, fmt.Errorf("%w: %q: %w", errNoHead, key, err)
		}
	}
	if head.EvalName == "" {
		return Results{}, errNoHead
	}
	return head, nil
}

var errNoHead = errors.New("no results.json")
