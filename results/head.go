package results

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
)

// maxHead is how many bytes of a results.json may stand before its tasks.
const maxHead = 4 << 20

// ReadHead reads what a results.json of ours begins with: the run in figures, without
// its servers and tasks. It reads no further.
func ReadHead(r io.Reader) (Results, error) {
	var head Results
	dec := json.NewDecoder(io.LimitReader(r, maxHead))
	if token, err := dec.Token(); err != nil || token != json.Delim('{') {
		return Results{}, errors.Join(errNoHead, err)
	}
	for dec.More() {
		key, err := dec.Token()
		if err != nil {
			return Results{}, errors.Join(errNoHead, err)
		}
		to, wanted := map[json.Token]any{
			"eval_id": &head.EvalID, "skill": &head.Skill, "eval_name": &head.EvalName, "timestamp": &head.Timestamp,
			"config": &head.Config, "summary": &head.Summary, "metrics": &head.Metrics, "labels": &head.Labels,
		}[key]
		if !wanted {
			break
		}
		if err := dec.Decode(to); err != nil {
			return Results{}, fmt.Errorf("%w: %q: %w", errNoHead, key, err)
		}
	}
	if head.EvalName == "" {
		return Results{}, errNoHead
	}
	return head, nil
}

var errNoHead = errors.New("no results.json")
