package script

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"

	"github.com/waza-isolate/waza/internal/jsontext"
	"github.com/waza-isolate/waza/internal/template"
)

// typed returns value as a T. If value has another type, it returns an error: complaint followed by the
// actual type.
func typed[T any](value any, complaint string) (T, error) {
	v, ok := value.(T)
	if !ok {
		return v, fmt.Errorf("%s %s", complaint, template.KindOf(value))
	}
	return v, nil
}

// number returns n as a JSON value.
func number(n int) json.Number { return json.Number(strconv.Itoa(n)) }

// withJSON adds "json" to fields if text is a JSON value.
func withJSON(fields map[string]any, text string) map[string]any {
	if value, err := jsontext.Parse([]byte(strings.TrimSpace(text))); err == nil {
		fields["json"] = value
	}
	return fields
}
