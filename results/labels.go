package results

import (
	"bytes"
	"encoding/json"
	"maps"
	"slices"

	"github.com/waza-isolate/waza/internal/text"
)

// maxShownLabel is how many bytes of a label are shown.
const maxShownLabel = 120

// LabelTexts are labels for a person, in the order of their names: a string as it is, and
// else the JSON in one line.
func LabelTexts(labels map[string]json.RawMessage) (all []string) {
	for _, name := range slices.Sorted(maps.Keys(labels)) {
		var s string
		if json.Unmarshal(labels[name], &s) != nil {
			var line bytes.Buffer
			if json.Compact(&line, labels[name]) == nil {
				s = line.String()
			}
		}
		all = append(all, text.Shorten(name+" "+s, maxShownLabel))
	}
	return all
}
