// Package mock is an agent that answers without a model and without tools, to try out the
// rest of an eval.
//
// It never reads a file's content. A deterministic agent that does something is
// package script.
package mock

import (
	"errors"
	"fmt"
	"io"

	"github.com/waza-isolate/waza/agents/internal/transcript"
)

// Options is what the mock is asked and where its answer goes. All but Next and Files
// is required; an empty prompt is a prompt.
type Options struct {
	Prompt     string
	Next       func() (string, error) // what it is asked afterwards, until io.EOF; nil for nothing
	Files      int                    // number of files that the task brings
	Stdout     io.Writer              // the final output
	Transcript io.Writer              // events, one JSON object a line
}

// Run answers each prompt. The wording is upstream waza's.
func Run(o Options) error {
	if o.Stdout == nil || o.Transcript == nil {
		return errors.New("mock agent: Stdout and Transcript are required")
	}
	answer := "Mock response for: " + o.Prompt
	if o.Files > 0 {
		answer += fmt.Sprintf("\nAnalyzed %d file(s)", o.Files)
	}
	events := transcript.NewWriter(o.Transcript)
	events.Prompt(o.Prompt)
	events.Say(answer)
	_, err := io.WriteString(o.Stdout, answer)
	for err == nil && o.Next != nil {
		prompt, ended := o.Next()
		if errors.Is(ended, io.EOF) {
			break
		}
		if err = ended; err == nil {
			answer = "Mock response for: " + prompt
			events.Prompt(prompt)
			events.Say(answer)
			_, err = io.WriteString(o.Stdout, answer)
		}
	}
	return errors.Join(err, events.Err())
}
