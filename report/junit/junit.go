// Package junit writes a run's results as JUnit XML. The output is valid under the schema of Ant's JUnit
// tasks, the strictest in use, and so under Jenkins' own.
//
// A run is one suite and each task a case, named as in waza. A case has passed, or is a failure if graders
// failed a trial, an error if the agent's work was not completed or has no verdict, or skipped if a trial did
// not run. A trial that ended as infra is an error and not skipped: it does not count in the verdict, but a
// pipeline that shows it as skipped would be green without an outcome. A metric with a threshold is a case
// too, since it affects the run's exit code.
//
// The package uses results only; it reads no files and no clock. Texts are untrusted, so their lengths are
// limited, and so is their total length.
package junit

import (
	"cmp"
	"encoding/xml"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/waza-isolate/waza/evidence"
	"github.com/waza-isolate/waza/internal/text"
	"github.com/waza-isolate/waza/report/view"
	"github.com/waza-isolate/waza/results"
)

// Write writes the results of a run as one document. It returns errors of w.
func Write(w io.Writer, run view.Run) error {
	if _, err := io.WriteString(w, xml.Header); err != nil {
		return err
	}
	encoder := xml.NewEncoder(w)
	encoder.Indent("", "  ")
	if err := encoder.Encode(document{Suites: []suite{suiteOf(run)}}); err != nil {
		return err
	}
	_, err := io.WriteString(w, "\n")
	return err
}

type document struct {
	XMLName xml.Name `xml:"testsuites"`
	Suites  []suite  `xml:"testsuite"`
}

// suite has the attributes and elements that Ant's schema requires, in its order.
type suite struct {
	ID         int        `xml:"id,attr"`
	Package    string     `xml:"package,attr"`
	Name       string     `xml:"name,attr"`
	Timestamp  string     `xml:"timestamp,attr"` // UTC, without a zone
	Hostname   string     `xml:"hostname,attr"`
	Tests      int        `xml:"tests,attr"`
	Failures   int        `xml:"failures,attr"`
	Errors     int        `xml:"errors,attr"`
	Skipped    int        `xml:"skipped,attr"`
	Time       seconds    `xml:"time,attr"`
	Properties []property `xml:"properties>property"`
	Cases      []testcase `xml:"testcase"`
	SystemOut  content    `xml:"system-out"`
	SystemErr  content    `xml:"system-err"`
}

type property struct {
	Name  string `xml:"name,attr"`
	Value string `xml:"value,attr"`
}

type testcase struct {
	Classname string   `xml:"classname,attr"`
	Name      string   `xml:"name,attr"`
	Time      seconds  `xml:"time,attr"`
	Failure   *problem `xml:"failure"`
	Error     *problem `xml:"error"`
	Skipped   *skipped `xml:"skipped"`
}

// problem is the reason why a case did not pass: Type is a word, Message a line, and Text the full text.
type problem struct {
	Type, Message string
	Text          content
}

func (p problem) MarshalXML(e *xml.Encoder, start xml.StartElement) error {
	start.Attr = []xml.Attr{attribute("type", p.Type), attribute("message", p.Message)}
	return p.Text.MarshalXML(e, start)
}

func attribute(name, value string) xml.Attr {
	return xml.Attr{Name: xml.Name{Local: name}, Value: value}
}

type skipped struct {
	Message string `xml:"message,attr"`
}

// seconds is a duration in the format of the schema.
type seconds time.Duration

func (s seconds) MarshalXMLAttr(name xml.Name) (xml.Attr, error) {
	return xml.Attr{Name: name, Value: strconv.FormatFloat(time.Duration(s).Seconds(), 'f', 3, 64)}, nil
}

// unknownHost is the value that the schema requires if the host is unknown.
const unknownHost = "localhost"

func suiteOf(run view.Run) suite {
	r := run.Results
	name, class := nameOf(r.EvalName), nameOf(cmp.Or(r.Skill, r.EvalName))
	s := suite{
		Package: name, Name: name, Hostname: unknownHost,
		Timestamp: r.Timestamp.UTC().Format("2006-01-02T15:04:05"),
		Time:      seconds(run.Took()), Properties: properties(r),
	}
	texts := budget{left: maxTexts}
	var before strings.Builder
	for _, task := range view.Tasks(r) {
		if task.Trigger != nil { // it counts in a metric, which has a case of its own
			continue
		}
		s.Cases = append(s.Cases, taskCase(class, r.Config.RunsPerTest, task, &texts))
		before.WriteString(string(texts.take(again(task))))
	}
	if line := run.AttackSentence(); line != "" {
		before.WriteString(line + "\n")
	}
	s.SystemOut = content(before.String())
	for _, m := range r.MetricsByName() {
		if m.Threshold > 0 {
			s.Cases = append(s.Cases, metricCase(class, m, run))
		}
	}
	for _, c := range s.Cases {
		s.count(c)
	}
	return s
}

func (s *suite) count(c testcase) {
	s.Tests++
	switch {
	case c.Failure != nil:
		s.Failures++
	case c.Error != nil:
		s.Errors++
	case c.Skipped != nil:
		s.Skipped++
	}
}

// properties describes the configuration of the run.
func properties(r results.Results) []property {
	all := []property{{"waza.run", r.EvalID}, {"waza.executor", r.Config.EngineType}}
	if r.Config.ModelID != "" {
		all = append(all, property{"waza.model", r.Config.ModelID})
	}
	all = append(all, property{"waza.isolated", strconv.FormatBool(r.Config.Isolated)})
	for _, attack := range r.Config.Weak {
		all = append(all, property{"waza.weak", attack})
	}
	for i := range all {
		all[i].Value = line(all[i].Value)
	}
	return all
}

// metricCase returns the case of a metric. It is skipped until the run is judged, since the missing trials
// could still raise or lower the metric.
func metricCase(class string, m results.Measure, run view.Run) testcase {
	c := testcase{Classname: class, Name: nameOf("metric " + m.Identifier)}
	switch {
	case !run.Judged():
		c.Skipped = &skipped{Message: strings.Join(run.MissingSentences(), " ")}
	case !m.Passed:
		c.Failure = &problem{Type: "metric", Message: "it " + view.Lack(m)}
	}
	return c
}

func milliseconds(ms int64) seconds { return seconds(time.Duration(ms) * time.Millisecond) }

// taskCase returns the case of a task with the planned number of trials. It is named as in waza, so that a
// pipeline's history is continuous.
func taskCase(class string, planned int, task view.Task, texts *budget) testcase {
	c := testcase{Classname: class, Name: nameOf(cmp.Or(task.DisplayName, task.TestID))}
	var failed, broken []view.Trial
	var reported strings.Builder
	for _, trial := range task.Trials {
		c.Time += milliseconds(trial.DurationMS)
		switch trial.Outcome {
		case evidence.ClassPass:
			continue
		case evidence.ClassFail:
			failed = append(failed, trial)
		default:
			broken = append(broken, trial)
		}
		if reported.Len() > maxText { // the rest would not be kept
			continue
		}
		if planned > 1 {
			fmt.Fprintf(&reported, "#%d ", trial.RunNumber)
		}
		reported.WriteString(trial.Full() + "\n")
	}
	why := func(trials []view.Trial) *problem {
		first := slices.MinFunc(trials, func(a, b view.Trial) int {
			return slices.Index(evidence.Classes(), a.Outcome) - slices.Index(evidence.Classes(), b.Outcome)
		})
		message := first.Line()
		if not := task.NotPassed(); planned > 1 && not != "" {
			message = not + ": " + message
		}
		return &problem{Type: line(string(first.Outcome)), Message: line(message), Text: texts.take(reported.String())}
	}
	switch {
	case len(failed) > 0:
		c.Failure = why(failed)
	case len(broken) > 0:
		c.Error = why(broken)
	case len(task.Missing) > 0:
		c.Skipped = &skipped{Message: task.MissingSentence()}
	}
	return c
}

// again describes the earlier attempts at a task's trials.
func again(task view.Task) string {
	var out strings.Builder
	for _, trial := range task.Trials {
		for _, before := range trial.Before {
			fmt.Fprintf(&out, "%s #%d, attempt %d: %s\n", task.TestID, trial.RunNumber, before.Attempt.Attempt, before.Text)
		}
	}
	return out.String()
}

// Limits on untrusted texts. results.json has everything.
const (
	maxName  = 200      // columns of a name
	maxLine  = 400      // columns of a message
	maxText  = 16 << 10 // bytes of the reasons of a case
	maxTexts = 8 << 20  // bytes of all reasons
)

// nameOf returns a name that the schema accepts: one line with normalized space, never
// empty.
func nameOf(s string) string {
	return cmp.Or(strings.Join(strings.Fields(text.Line(s, maxName)), " "), "unnamed")
}

// line returns a text shortened to one line.
func line(s string) string { return text.Line(s, maxLine) }

// budget is the number of bytes left for reasons.
type budget struct{ left int }

// take returns the part of s that fits, in visible form.
func (b *budget) take(s string) content {
	if s == "" {
		return ""
	}
	shown, isCut := text.Lines(s, min(maxText, b.left))
	b.left -= len(shown)
	if isCut {
		shown += "\n… results.json has more\n"
	}
	return content(shown)
}

// content is the text of an element. It writes line breaks verbatim, which encoding/xml
// does only for tokens.
type content string

func (t content) MarshalXML(e *xml.Encoder, start xml.StartElement) error {
	if err := e.EncodeToken(start); err != nil {
		return err
	}
	if err := e.EncodeToken(xml.CharData(t)); err != nil {
		return err
	}
	return e.EncodeToken(start.End())
}
