package strictyaml

import (
	"encoding/json"
	"errors"
	"fmt"
	"time"
)

// Duration is a positive duration, written as in 500ms.
type Duration time.Duration

// UnmarshalJSON accepts strings that [time.ParseDuration] accepts.
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
