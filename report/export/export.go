// Package export writes a run for other tools: as trajectories in ATIF, as CSV, as OpenTelemetry spans, or as
// SARIF.
//
// Everything is read from the run's evidence, so redacted text stays redacted. Texts are
// untrusted and limited in length. One trial is held in memory at a time.
package export

import (
	"encoding/json"
	"io"
	"iter"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/waza-isolate/waza/evidence"
	"github.com/waza-isolate/waza/internal/text"
	"github.com/waza-isolate/waza/report/view"
)

// Run is a run to export.
type Run struct {
	view.Run
	Trials  []evidence.Dir // trials to export, in order of task and number
	Content bool           // spans include prompts, responses, arguments, results and feedback of graders
}

// Format is a format in which runs are exported. Each one is a file of this package, which adds the format.
type Format struct {
	Name  string
	Whole bool // the format covers whole runs, not selected trials
	Write func(io.Writer, Run) error
}

var formats []Format

func add(f Format) { formats = append(formats, f) }

// Formats returns all formats, sorted by name.
func Formats() []Format {
	return slices.SortedFunc(slices.Values(formats), func(a, b Format) int { return strings.Compare(a.Name, b.Name) })
}

// graded iterates over the trials to export that have verdicts, with their tasks.
func (r Run) graded() iter.Seq2[view.Task, view.Trial] {
	wanted := map[string]bool{} // keyed by task and number, as in the directories' names
	for _, dir := range r.Trials {
		task, number := filepath.Split(string(dir))
		wanted[filepath.Base(task)+"/"+number] = true
	}
	return func(yield func(view.Task, view.Trial) bool) {
		for _, task := range view.Tasks(r.Results) {
			for _, trial := range task.Trials {
				if wanted[trial.Name] && !yield(task, trial) {
					return
				}
			}
		}
	}
}

// maxText is the maximum number of bytes exported of one text or of a call's arguments.
const maxText = 64 << 10

func cut(s string) string { return text.Shorten(strings.ToValidUTF8(s, "\uFFFD"), maxText) }

// object returns arguments as a JSON object. Arguments that are not an object, or are too
// long, become the value of a single key.
func object(arguments json.RawMessage) json.RawMessage {
	var fields map[string]json.RawMessage
	switch {
	case len(arguments) == 0:
		return json.RawMessage("{}")
	case len(arguments) <= maxText && json.Unmarshal(arguments, &fields) == nil && fields != nil:
		return arguments
	}
	wrapped, _ := json.Marshal(map[string]string{"arguments": cut(string(arguments))}) // encoding strings cannot fail
	return wrapped
}

// timeOf formats a time in ISO 8601 as all readers accept it; "" for the zero time.
func timeOf(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format("2006-01-02T15:04:05.000Z07:00")
}
