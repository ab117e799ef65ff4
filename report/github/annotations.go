package github

import (
	"fmt"
	"io"
	"strings"

	"github.com/waza-isolate/waza/evidence"
	"github.com/waza-isolate/waza/internal/text"
	"github.com/waza-isolate/waza/report/view"
)

// Levels of annotations.
const (
	Error   = "error"
	Warning = "warning"
)

// maxOfLevel is the number of annotations per level that GitHub shows for a step.
const maxOfLevel = 10

// Limits of an annotation in bytes. GitHub shows 4 KiB of a message.
const (
	maxTitle   = 200
	maxMessage = 2000
)

// Place is where a task is defined. An annotation without a File is not shown next to a file.
type Place struct {
	File string // relative to the root of the repository
	Line int    // from 1
}

// Annotation is an annotation at a place.
type Annotation struct {
	Level string // Error or Warning
	Place
	Title   string
	Message string
}

// Annotations returns why the trials of a run did not pass and which attacks succeeded. Outcomes are warnings
// if they depend neither on the agent nor on files of the repository, such as a cassette.
func Annotations(run view.Run, places map[string]Place) (all []Annotation) {
	for _, f := range view.Failures(view.Tasks(run.Results), 0) {
		level := Error
		if o := f.First.Outcome; !o.OfAgent() && o != evidence.ClassMiss {
			level = Warning
		}
		title := fmt.Sprintf("%s: %s", f.Task.TestID, f.What.Word)
		if n := len(f.Task.Trials); n > 1 {
			title += fmt.Sprintf(" in %d of %s", len(f.Trials), text.Count(n, "trial"))
		}
		all = append(all, Annotation{level, places[f.Task.TestID], title, f.What.Line})
	}
	return all
}

// WriteAnnotations writes annotations as workflow commands. If there are more of a level than GitHub shows,
// the last one shown says how many more there are.
func WriteAnnotations(w io.Writer, all []Annotation) error {
	count, written := map[string]int{}, map[string]int{}
	for _, a := range all {
		count[a.Level]++
	}
	var out strings.Builder
	for _, a := range all {
		written[a.Level]++
		switch left := count[a.Level] - maxOfLevel + 1; {
		case written[a.Level] < maxOfLevel || count[a.Level] == maxOfLevel && written[a.Level] == maxOfLevel:
			out.WriteString(a.String())
		case written[a.Level] == maxOfLevel:
			more := Annotation{Level: a.Level, Title: fmt.Sprintf("%d more", left), Message: "The output of the command and the summary of the job say more."}
			out.WriteString(more.String())
		}
	}
	_, err := io.WriteString(w, out.String())
	return err
}

// String returns the workflow command of an annotation, as one line.
func (a Annotation) String() string {
	var properties []string
	if a.File != "" {
		properties = append(properties, "file="+property.Replace(a.File), fmt.Sprintf("line=%d", max(a.Line, 1)))
	}
	properties = append(properties, "title="+property.Replace(text.Shorten(text.Inert(a.Title), maxTitle)))
	return fmt.Sprintf("::%s %s::%s\n", a.Level, strings.Join(properties, ","), message.Replace(text.Shorten(text.InertLines(a.Message), maxMessage)))
}

// Escapes for messages and properties of workflow commands, as decoded by the runner.
var (
	message  = strings.NewReplacer("%", "%25", "\r", "%0D", "\n", "%0A")
	property = strings.NewReplacer("%", "%25", "\r", "%0D", "\n", "%0A", ":", "%3A", ",", "%2C")
)

// StopCommands returns a line that stops the interpretation of workflow commands, so that untrusted text
// cannot contain any, and a line that resumes it. The token must be unpredictable.
func StopCommands(token string) (begin, end string) {
	return "::stop-commands::" + token + "\n", "::" + token + "::\n"
}
