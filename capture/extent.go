package capture

import (
	"encoding/json"
	"fmt"
	"strconv"

	"github.com/waza-isolate/waza/internal/jsontext"
	"github.com/waza-isolate/waza/internal/jsonvalue"
)

func isIntricate(raw []byte) bool { return jsontext.MoreThan(jsontext.MaxValues, raw) }

// Bounds of what is held against each other. Schemas of real servers stay below a
// tenth of each.
const (
	maxArguments = 1 << 20 // bytes
	maxSchema    = 1 << 20 // bytes
	maxNesting   = 64      // levels, of schemas and arguments
	maxPlaces    = 4096    // objects and booleans of a schema, which may be schemas each
	maxPaths     = 4 << 20 // bytes of all their paths
	// maxAllPlaces is the sum of the squares of the places of one server's schemas,
	// since compiling takes that many steps.
	maxAllPlaces = 4 * maxPlaces * maxPlaces
)

// extent measures how much work a JSON value can make of little text.
type extent struct {
	nesting int
	places  int
	paths   int
	number  bool // one of too many digits, or of too large an exponent
}

func measure(v any) extent {
	var e extent
	e.add(v, 1, 0)
	return e
}

func (e *extent) add(v any, nesting, path int) {
	if e.nesting = max(e.nesting, nesting); nesting > maxNesting {
		return
	}
	switch v := v.(type) {
	case map[string]any:
		e.places++
		e.paths += path
		for key, part := range v {
			e.add(part, nesting+1, path+1+len(key))
		}
	case []any:
		for i, part := range v {
			e.add(part, nesting+1, path+1+len(strconv.Itoa(i)))
		}
	case bool:
		e.places++
		e.paths += path
	case json.Number:
		e.number = e.number || jsonvalue.IsHuge(string(v))
	}
}

// tooLarge says why a value is not looked at; empty where it is.
func (e extent) tooLarge() string {
	switch {
	case e.nesting > maxNesting:
		return fmt.Sprintf("nested deeper than %d levels", maxNesting)
	case e.number:
		return fmt.Sprintf("with a number of more than %d digits", jsonvalue.MaxDigits)
	}
	return ""
}

// tooIntricate says why a schema is not compiled; empty where it is.
func (e extent) tooIntricate() string {
	if e.places > maxPlaces || e.paths > maxPaths {
		return fmt.Sprintf("has more than %d parts, or too long names of them", maxPlaces)
	}
	return ""
}
