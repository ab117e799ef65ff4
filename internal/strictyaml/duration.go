package strictyaml

import (
	"encoding/json"
	"errors"
	"fmt"
	"time"
)

// Duration is a time above 0, written as in 500ms.
type Duration time.Duration

// UnmarshalJSON takes a string that [time.ParseDuration] takes.
func (d *Duration) UnmarshalJSON(b []byte) error {
	var text string
	if err := json.Unmarshal(b, &text); err != nil {
		return errors.New("must be a time such as 500ms")
	}
	parsed, err := time.ParseDuration(text)
	if err != nil || parsed <= 0 {
		return fmt.Errorf("must be a time such as 500ms, above 0, not %q", text)
	}
	*d = Duration(parsed)
	return nil
}
