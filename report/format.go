package report

import (
	"fmt"
	"html/template"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/waza-isolate/waza/evidence"
	"github.com/waza-isolate/waza/internal/text"
	"github.com/waza-isolate/waza/report/view"
)

// funcs are the functions that templates can call.
var funcs = template.FuncMap{
	"line":     text.Visible,      // an untrusted single-line text
	"lines":    text.VisibleLines, // an untrusted multi-line text
	"count":    text.Number[int],
	"count64":  text.Number[int64],
	"bytes":    view.Bytes,
	"ms":       milliseconds,
	"took":     view.Clock,
	"left":     view.Left,
	"percent":  percent,
	"when":     when,
	"toMinute": toMinute,
	"outcome":  outcomeOf,
	"endedAs":  view.EndedAs,
	"word":     view.Word[string],
	"dict":     dict,
	"add":      func(a, b int) int { return a + b },
	"words":    func(all ...string) []string { return all },
	"bar":      share,
	"legends":  func() [2]string { return [2]string{view.IntervalLegend, view.DifferenceLegend} },
	"between":  between,
	"within":   within,
	"several":  text.Count,
	"score":    score,
	"dollars":  view.Dollars,
	"msf":      fractionalMilliseconds,
	"limit":    func(seconds int) string { return fmt.Sprintf("%ds", seconds) },
	"seconds":  func(s float64) string { return view.Clock(time.Duration(s * float64(time.Second))) },
	"attack":   attackMark,
	"ending":   injectionMark,
	"attacked": labeledInjectionMark,
	"labels":   view.LabelTexts,
	"change":   changeMark,
	"finding":  findingMark,
	"whisker":  shareDifference,
}

func milliseconds(ms int64) string { return view.Clock(time.Duration(ms) * time.Millisecond) }

func fractionalMilliseconds(ms float64) string { return view.MS(&ms) }

// score formats a number from 0 to 1 with two decimals.
func score(s float64) string { return strconv.FormatFloat(s, 'f', 2, 64) }

// percent formats a share from 0 to 1 in percent.
func percent(share float64) string { return strconv.FormatFloat(100*share, 'f', 0, 64) + "%" }

func when(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format("2006-01-02 15:04:05 UTC")
}

// toMinute formats a time without seconds, in UTC.
func toMinute(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format("2006-01-02 15:04")
}

// Mark shows an outcome as a symbol, a word and a color.
type Mark struct {
	Sign string // id of the symbol
	Word string
	Kind string // color: pass, fail, warn, infra, soft
}

// kindOf returns the color of a state.
func kindOf(state view.State) string {
	switch state {
	case view.Good:
		return "pass"
	case view.Void:
		return "infra"
	case view.Doubtful:
		return "warn"
	case view.Bad:
		return "fail"
	}
	return "soft"
}

// outcomeOf returns the mark for the outcome of a trial, call or verdict, or for the verdict on a run.
func outcomeOf(outcome any) Mark {
	word := fmt.Sprint(outcome)
	return Mark{signOf(word), view.Word(word), kindOf(view.StateOf(word))}
}

// signOf returns the symbol of an outcome.
func signOf(word string) string {
	switch word {
	case string(evidence.ClassPass), string(evidence.OutcomeOK), view.Passed:
		return "pass"
	case string(evidence.ClassFail), string(evidence.OutcomeToolError), view.Failed:
		return "fail"
	case string(evidence.ClassTimeout):
		return "timeout"
	case string(evidence.ClassAgentError), string(evidence.ClassServerError), string(evidence.ClassMiss), string(evidence.OutcomeProtocolError), string(evidence.OutcomeTransportError):
		return "broke"
	case string(evidence.OutcomeCancelled), string(evidence.OutcomeAbandoned), view.AtWork:
		return "none"
	case string(evidence.ClassInfra), view.Incomplete:
		return "infra"
	}
	return "error"
}

// dict returns a map of key-value pairs, for templates that take several values.
func dict(pairs ...any) (map[string]any, error) {
	if len(pairs)%2 != 0 {
		return nil, fmt.Errorf("dict: a key without a value")
	}
	all := map[string]any{}
	for i := 0; i < len(pairs); i += 2 {
		all[fmt.Sprint(pairs[i])] = pairs[i+1]
	}
	return all, nil
}

// Paths of pages.
const (
	PathOverview = "overview"
	PathServers  = "servers"
	PathCompare  = "compare"
)

// Links determines the addresses of pages: fragments within one file, or paths on a server.
// An element has the same id in both: the path of its page, or path/anchor.
type Links struct {
	Base   string // on a server: prefix of each path, without a trailing slash
	InFile bool
	Run    int // number of the run in a file of several, from 1; 0 for the only one
}

// TrialPath returns the path of a trial's page.
func TrialPath(task string, number int) string {
	return "trial/" + task + "/" + strconv.Itoa(number)
}

// ID returns the id of a page, or of an element of it.
func (l Links) ID(path string, anchor ...string) string {
	if l.Run > 0 {
		path = "run/" + strconv.Itoa(l.Run) + "/" + path
	}
	return strings.Join(append([]string{path}, anchor...), "/")
}

// To returns the address of a page, or of an element of it.
func (l Links) To(path string, anchor ...string) template.URL {
	fragment := "#" + escaped(l.ID(path, anchor...))
	switch {
	case l.InFile:
		return template.URL(fragment)
	case len(anchor) == 0:
		return template.URL(l.Base + "/" + escaped(path))
	}
	return template.URL(l.Base + "/" + escaped(path) + fragment)
}

// Trial returns the address of a trial's page.
func (l Links) Trial(task string, number int) template.URL { return l.To(TrialPath(task, number)) }

// escaped escapes a path for a URL, including dot segments that would lead upwards.
func escaped(path string) string {
	parts := strings.Split(path, "/")
	for i, part := range parts {
		if parts[i] = url.PathEscape(part); strings.Trim(part, ".") == "" {
			parts[i] = strings.ReplaceAll(part, ".", "%2E")
		}
	}
	return strings.Join(parts, "/")
}
