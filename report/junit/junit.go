// Package junit writes a run's results as JUnit XML. What it writes is valid by the schema
// of Ant's JUnit tasks, the strictest in use, and so by Jenkins' own.
//
// A run is one suite, and each of its tasks a case, under the names that waza gives them:
// passed; a failure, where graders say so of a trial; an error, where there is no verdict
// on the agent's work or it did not come to its end; or skipped, where a trial did not
// run. A trial that ended as infra is an error and not skipped: it counts for nothing in
// the verdict, but a pipeline that shows it as skipped would be green for a trial that has
// no outcome. A metric with a
// threshold is a case too, since it decides on the run's exit code.
//
// It computes from results alone: no file is read and no clock asked. Texts are
// strangers', so each is bounded, and so are all together.
package junit

import (
	"cmp"
	"encoding/xml"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/waza-isolate/waza/report/view"
	"github.com/waza-isolate/waza/results"
)

// Write writes the results of a run as one document. An error is w's.
func Write(w io.Writer, r results.Results) error {
	if _, err := io.WriteString(w, xml.Header); err != nil {
		return err
	}
	encoder := xml.NewEncoder(w)
	encoder.Indent("", "  ")
	if err := encoder.Encode(document{Suites: []suite{suiteOf(r)}}); err != nil {
		return err
	}
	_, err := io.WriteString(w, "\n")
	return err
}

type document struct {
	XMLName xml.Name `xml:"testsuites"`
	Suites  []suite  `xml:"testsuite"`
}

// suite has the attributes and elements that Ant's schema demands, in its order.
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

// problem is why a case did not pass: Type in a word, Message in a line, Text in full.
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

// seconds is a time as the schema has it.
type seconds time.Duration

func (s seconds) MarshalXMLAttr(name xml.Name) (xml.Attr, error) {
	return xml.Attr{Name: name, Value: strconv.FormatFloat(time.Duration(s).Seconds(), 'f', 3, 64)}, nil
}

// unknownHost is what the schema wants where a host is not told.
const unknownHost = "localhost"

func suiteOf(r results.Results) suite {
	name, class := nameOf(r.EvalName), nameOf(cmp.Or(r.Skill, r.EvalName))
	s := suite{
		Package: name, Name: name, Hostname: unknownHost,
		Timestamp: r.Timestamp.UTC().Format("2006-01-02T15:04:05"),
		Time:      milliseconds(r.Summary.DurationMS), Properties: properties(r),
	}
	texts := budget{left: maxTexts}
	var before strings.Builder
	for _, task := range r.Tasks {
		if task.Trigger != nil { // counts for a metric, which has a case of its own
			continue
		}
		s.Cases = append(s.Cases, taskCase(class, r.Config.RunsPerTest, task, &texts))
		before.WriteString(string(texts.take(again(task))))
	}
	s.SystemOut = content(before.String())
	for _, m := range r.MetricsByName() {
		if m.Threshold > 0 {
			s.Cases = append(s.Cases, metricCase(class, m))
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

// properties say how the run was made.
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

func metricCase(class string, m results.Measure) testcase {
	c := testcase{Classname: class, Name: nameOf("metric " + m.Identifier)}
	if !m.Passed {
		c.Failure = &problem{Type: "metric", Message: "it " + view.Lack(m)}
	}
	return c
}

func milliseconds(ms int64) seconds { return seconds(time.Duration(ms) * time.Millisecond) }
