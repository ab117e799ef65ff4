package stub

import (
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/waza-isolate/waza/internal/jsontext"
	"github.com/waza-isolate/waza/internal/strictyaml"
)

// Script is what a model says and does, turn by turn.
type Script struct {
	models        []string
	conversations []conversation
	asides        []aside
}

// document is a script as its file has it.
type document struct {
	Models        []string           `json:"models,omitempty"`
	Turns         []turnEntry        `json:"turns,omitempty"`
	Conversations []conversationText `json:"conversations,omitempty"`
	Asides        []asideEntry       `json:"asides,omitempty"`
}

type conversationText struct {
	Name  string      `json:"name,omitempty"`
	When  condition   `json:"when,omitzero"`
	Turns []turnEntry `json:"turns"`
}

type asideEntry struct {
	When condition `json:"when"`
	Say  string    `json:"say"`
}

// turnEntry is an answer, or what happens in place of one.
type turnEntry struct {
	Say   *string     `json:"say,omitempty"`
	Call  *callEntry  `json:"call,omitempty"`
	Calls []callEntry `json:"calls,omitempty"`
	Usage *usageEntry `json:"usage,omitempty"`
	Delay duration    `json:"delay,omitempty"`

	Fail  *failEntry `json:"fail,omitempty"`
	Stall duration   `json:"stall,omitempty"`
	Cut   string     `json:"cut,omitempty" enum:"reset half"`
}

type callEntry struct {
	Tool      string          `json:"tool"`
	Server    string          `json:"server,omitempty"`
	Arguments json.RawMessage `json:"arguments,omitempty"`
}

type usageEntry struct {
	Input  int64 `json:"input" min:"0" max:"1000000000"`
	Output int64 `json:"output" min:"0" max:"1000000000"`
	Cached int64 `json:"cached,omitempty" min:"0" max:"1000000000"`
}

type failEntry struct {
	Status     int      `json:"status" min:"400" max:"599"`
	Message    string   `json:"message,omitempty"`
	RetryAfter *float64 `json:"retry_after,omitempty" min:"0" max:"3600"`
}

// maxDuration bounds delays and stalls.
const maxDuration = 10 * time.Minute

// duration is a time such as 500ms.
type duration time.Duration

// UnmarshalJSON takes a string that time.ParseDuration takes.
func (d *duration) UnmarshalJSON(b []byte) error {
	var text string
	if err := jsontext.Unmarshal(b, &text); err != nil {
		return errors.New("must be a time such as 500ms")
	}
	parsed, err := time.ParseDuration(text)
	if err != nil || parsed <= 0 || parsed > maxDuration {
		return fmt.Errorf("must be a time such as 500ms, above 0 and up to %v, not %q", maxDuration, text)
	}
	*d = duration(parsed)
	return nil
}

// Parse reads a script. Errors name the file as file, with the places of all that is
// wrong with it.
func Parse(file string, data []byte) (*Script, error) {
	doc, err := strictyaml.Parse(file, data)
	if err != nil {
		return nil, err
	}
	var d document
	if doc.Decode(&d); doc.Err() != nil {
		return nil, doc.Err() // what a misspelt key leaves out is no mistake of its own
	}
	s := compiler{doc}.script(d)
	if err := doc.Err(); err != nil {
		return nil, err
	}
	return s, nil
}
