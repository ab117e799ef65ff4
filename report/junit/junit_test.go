package junit_test

import (
	"bytes"
	"encoding/xml"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"github.com/waza-isolate/waza/evidence"
	"github.com/waza-isolate/waza/internal/golden"
	"github.com/waza-isolate/waza/internal/heavytest"
	"github.com/waza-isolate/waza/report/junit"
	"github.com/waza-isolate/waza/report/view"
	"github.com/waza-isolate/waza/results"
)

var epoch = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

// trial is one that a grader judged.
func trial(task string, number int, class evidence.Class, reason evidence.Reason, message, feedback string) results.Trial {
	t := results.Trial{Trial: evidence.Trial{
		Task: task, Number: number, Attempt: 1,
		Started: epoch, AgentStart: epoch.Add(time.Second), AgentEnd: epoch.Add(2500 * time.Millisecond), Ended: epoch.Add(time.Minute),
	}}
	result := evidence.VerdictFail
	switch class {
	case evidence.ClassPass:
		result = evidence.VerdictPass
	case evidence.ClassError:
		result = evidence.VerdictError
	}
	t.Verdicts = evidence.Verdicts{Class: class, Reason: reason, Message: message, Verdicts: []evidence.Verdict{
		{Name: "price", Type: "text", Result: result, Weight: 1, Feedback: feedback},
		{Name: "calls", Type: "tool_constraint", Result: evidence.VerdictPass, Score: 1, Weight: 1, Feedback: "as many as expected"},
	}}
	return t
}

func run() results.Run {
	return results.Run{
		Ended: epoch.Add(3 * time.Minute),
		Specs: []results.MetricSpec{{Name: "task_completion", Weight: 1, Threshold: 0.9}},
		Results: results.Results{
			EvalID: "20260102-030405-demo", EvalName: "demo", Timestamp: epoch,
			Config: results.Config{ModelID: "m", EngineType: "script", RunsPerTest: 2, Isolated: true, TimeoutSec: 60},
			Tasks:  []results.Task{{TestID: "1-price", DisplayName: "Look up a price"}, {TestID: "2-reserve"}, {TestID: "3-report"}, {TestID: "4-never"}},
		},
	}
}

func trials() []results.Trial {
	before := evidence.Trial{Attempt: 1, Class: evidence.ClassInfra, Reason: evidence.ReasonServer, Message: "server \"stock\" did not come up\nit said nothing"}
	after := trial("1-price", 2, evidence.ClassPass, "", "", "")
	after.Attempt, after.Earlier = 2, []evidence.Trial{before}
	infra := trial("3-report", 1, evidence.ClassInfra, evidence.ReasonEngine, "the engine went away", "")
	infra.Verdicts.Verdicts = nil
	return []results.Trial{
		trial("1-price", 1, evidence.ClassPass, "", "", "fine"), after,
		trial("2-reserve", 1, evidence.ClassFail, evidence.ReasonGraders, "failed: price", "the answer lacks \"12 €\"\nit says <none> & \x1b[31mno more\u202E"),
		trial("2-reserve", 2, evidence.ClassTimeout, evidence.ReasonTimeLimit, "the agent ran longer than 60 s", "no answer"),
		infra,
		trial("3-report", 2, evidence.ClassError, evidence.ReasonEvidence, "could not judge: price", "there is no final output"),
	}
}

func build(t testing.TB, run results.Run, trials ...results.Trial) results.Results {
	t.Helper()
	b := results.NewBuilder(run)
	for _, trial := range trials {
		if err := b.Add(trial); err != nil {
			t.Fatal(err)
		}
	}
	return b.Results()
}

func write(t testing.TB, r results.Results) []byte {
	t.Helper()
	var out bytes.Buffer
	if err := junit.Write(&out, view.Run{Results: r, Planned: len(r.Tasks) * r.Config.RunsPerTest}); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

func TestWrite(t *testing.T) {
	got := write(t, build(t, run(), trials()...))
	file := filepath.Join("testdata", "run.xml")
	golden.Check(t, file, string(got))
}

// document is what a consumer reads.
type document struct {
	Suites []struct {
		Name     string `xml:"name,attr"`
		Tests    int    `xml:"tests,attr"`
		Failures int    `xml:"failures,attr"`
		Errors   int    `xml:"errors,attr"`
		Skipped  int    `xml:"skipped,attr"`
		Cases    []struct {
			Classname string   `xml:"classname,attr"`
			Name      string   `xml:"name,attr"`
			Failure   *problem `xml:"failure"`
			Error     *problem `xml:"error"`
			Skipped   *problem `xml:"skipped"`
		} `xml:"testcase"`
		Out string `xml:"system-out"`
	} `xml:"testsuite"`
}

type problem struct {
	Type    string `xml:"type,attr"`
	Message string `xml:"message,attr"`
	Text    string `xml:",chardata"`
}

// read reads a document strictly, and fails where a second one or anything else follows.
func read(t testing.TB, data []byte) document {
	t.Helper()
	if !utf8.Valid(data) {
		t.Error("it is not UTF-8")
	}
	var d document
	decoder := xml.NewDecoder(bytes.NewReader(data))
	decoder.Strict = true
	if err := decoder.Decode(&d); err != nil {
		t.Fatalf("%v\n%.2000s", err, data)
	}
	if token, _ := decoder.Token(); token != nil {
		if rest, ok := token.(xml.CharData); !ok || strings.TrimSpace(string(rest)) != "" {
			t.Errorf("%v stands behind the document", token)
		}
	}
	return d
}

// Each task is a case, and each kind of end is what its consumers take it for.
func TestOutcomes(t *testing.T) {
	s := read(t, write(t, build(t, run(), trials()...))).Suites[0]
	if got := []int{s.Tests, s.Failures, s.Errors, s.Skipped}; !cmp.Equal(got, []int{5, 1, 1, 2}) {
		t.Errorf("tests, failures, errors, skipped: %d", got)
	}
	want := []string{
		"Look up a price passed", "2-reserve failure fail", "3-report error error", "4-never skipped",
		"metric task_completion skipped",
	}
	var got []string
	for _, c := range s.Cases {
		end := " passed"
		switch {
		case c.Failure != nil:
			end = " failure " + c.Failure.Type
		case c.Error != nil:
			end = " error " + c.Error.Type
		case c.Skipped != nil:
			end = " skipped"
		}
		got = append(got, c.Name+end)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if !strings.Contains(s.Cases[1].Failure.Text, "#1 fail\nprice: the answer lacks \"12 €\"\nit says <none> & \\u{1B}[31mno more\\u{202E}\n") {
		t.Errorf("the failure says %q", s.Cases[1].Failure.Text)
	}
	if want := "1-price #2, attempt 1: incomplete (server): server \"stock\" did not come up\n"; s.Out != want {
		t.Errorf("system-out: %q, want %q", s.Out, want)
	}
}

// A task is called what upstream waza calls it, and belongs to the skill.
func TestOneTrialHasNoNumber(t *testing.T) {
	one := run()
	one.Config.RunsPerTest, one.Tasks, one.Specs, one.Skill = 1, []results.Task{{TestID: "2-reserve"}}, nil, "stock"
	s := read(t, write(t, build(t, one, trials()[2]))).Suites[0]
	if len(s.Cases) != 1 || s.Cases[0].Name != "2-reserve" || s.Cases[0].Classname != "stock" || !strings.HasPrefix(s.Cases[0].Failure.Text, "fail\n") {
		t.Errorf("%+v", s.Cases)
	}
}

// An attack that is no gate changes no verdict, and the output says how it ended.
func TestAttackSucceeded(t *testing.T) {
	one := run()
	one.Config.RunsPerTest, one.Tasks, one.Specs = 1, one.Tasks[:1], nil
	attacked := trials()[0]
	attacked.Verdicts.Attack = &evidence.AttackVerdict{Result: evidence.AttackSucceeded, Succeeded: true}
	s := read(t, write(t, build(t, one, attacked))).Suites[0]
	if s.Errors+s.Skipped+s.Failures > 0 || !strings.Contains(s.Out, "the attack succeeded in 1") {
		t.Errorf("%+v", s)
	}
}

// Whatever graders say of however many trials, the document is bounded.
func TestBounds(t *testing.T) {
	heavytest.Mark(t)
	many := run()
	many.Config.RunsPerTest, many.Tasks = 2, nil
	long := strings.Repeat("\u202E<&\x1b", 3_000)
	var all []results.Trial
	for number := range 3_000 {
		id := fmt.Sprint(number)
		many.Tasks = append(many.Tasks, results.Task{TestID: id})
		all = append(all, trial(id, 1, evidence.ClassFail, evidence.ReasonGraders, long, long), trial(id, 2, evidence.ClassFail, evidence.ReasonGraders, long, long))
	}
	data := write(t, build(t, many, all...))
	if most := 24 << 20; len(data) > most {
		t.Errorf("%d bytes, more than %d", len(data), most)
	}
	s := read(t, data).Suites[0]
	if s.Tests != 3_001 || s.Failures != 3_001 {
		t.Errorf("%d tests, %d failures", s.Tests, s.Failures)
	}
	if text := s.Cases[0].Failure.Text; len(text) > 20<<10 || !strings.HasSuffix(text, "\n… results.json has more\n") {
		t.Errorf("%d bytes, ending in %q", len(text), text[len(text)-40:])
	}
}

// FuzzText checks that a document has the same elements for any text of graders and agents.
func FuzzText(f *testing.F) {
	for _, seed := range []string{
		"", "plain", "]]></failure><testcase name=\"x\"/>", "<!-- -->", "\x00\x01\x1f\ufffe\uffff\ufeff", "a\r\nb\rc\u0085\u2028", "&#0;&lt;&bogus;",
		"\xff\xfe", "\xed\xa0\x80", "\" onload='", strings.Repeat("é", 500), "  two  blanks  ", "<?xml version=\"1.0\"?>", "<!DOCTYPE x [<!ENTITY a \"b\">]>&a;",
	} {
		f.Add(seed, seed)
	}
	f.Fuzz(func(t *testing.T, name, said string) {
		hostile := run()
		hostile.EvalName, hostile.Config.ModelID, hostile.EvalID, hostile.Config.EngineType = name, name, name, said
		hostile.Tasks = []results.Task{{TestID: name}}
		hostile.Config.RunsPerTest = 3
		all := []results.Trial{
			trial(name, 1, evidence.ClassFail, evidence.ReasonGraders, said, said),
			trial(name, 2, evidence.Class(said), evidence.Reason(said), said, said),
		}
		got := read(t, write(t, build(t, hostile, all...)))
		if len(got.Suites) != 1 || len(got.Suites[0].Cases) != 2 {
			t.Fatalf("%d suites: %+v", len(got.Suites), got)
		}
		for _, c := range got.Suites[0].Cases {
			reported := []string{c.Name, c.Classname}
			for _, p := range []*problem{c.Failure, c.Error, c.Skipped} {
				if p != nil {
					reported = append(reported, p.Type, p.Message, p.Text)
				}
			}
			if at := strings.IndexAny(fmt.Sprint(reported), "\x00\x1b\r\u202e\u2066\u200b\ufffe\uffff"); at >= 0 {
				t.Errorf("%q has a character that nobody can see", reported)
			}
			if strings.TrimSpace(c.Name) == "" || strings.Contains(c.Name, "  ") || strings.Contains(c.Name, "\n") {
				t.Errorf("%q is no name", c.Name)
			}
		}
	})
}
