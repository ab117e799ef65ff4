package grading

import (
	"cmp"
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/waza-isolate/waza/evidence"
	"github.com/waza-isolate/waza/evidence/capture"
	"github.com/waza-isolate/waza/internal/jsontext"
	"github.com/waza-isolate/waza/internal/text"
)

// failures are the failed calls, by how they count.
type failures struct {
	counted   []evidence.Call // against the limit
	expected  []evidence.Call
	recovered []recovered
	soft      []softFailure
}

// softFailure is a successful call whose result looks like an error.
type softFailure struct {
	evidence.Call
	why string
}

type recovered struct{ failed, by evidence.Call }

// errorKinds are the values of errors.count, by outcome.
var errorKinds = map[evidence.Outcome]string{
	evidence.OutcomeToolError: "tool", evidence.OutcomeProtocolError: "protocol",
	evidence.OutcomeTransportError: "transport", evidence.OutcomeTimeout: "timeout",
}

// hardened returns calls, and the softFailures among them. With soft: count, their outcome is changed to
// tool_error.
func (r ErrorRules) hardened(calls []evidence.Call) (all []evidence.Call, soft []softFailure, err error) {
	if !isSeverity(r.Soft) && r.Soft != "count" {
		return calls, nil, nil
	}
	all = slices.Clone(calls)
	for i, call := range all {
		if call.Outcome != evidence.OutcomeOK {
			continue
		}
		result, err := call.Result.Raw()
		if err != nil {
			return nil, nil, fmt.Errorf("%w: %v", errEvidence, err)
		}
		why := softError(result)
		if why == "" {
			continue
		}
		if r.Soft == "count" {
			all[i].Outcome = evidence.OutcomeToolError
		}
		soft = append(soft, softFailure{all[i], why})
	}
	return all, soft, nil
}

// removed returns an error if a secret was removed from a result that soft: count would search for errors.
func (r ErrorRules) removed(calls []evidence.Call) error {
	for _, call := range calls {
		if r.Soft == "count" && call.Outcome == evidence.OutcomeOK && len(call.ResultMarks) > 0 {
			return removed(errEvidence, call.ResultMarks, "the answer to "+describeCall(call))
		}
	}
	return nil
}

// succeeded reports whether a call had the expected outcome, so that it can match an
// expected call.
func (r ErrorRules) succeeded(call evidence.Call) bool {
	return call.Outcome == evidence.OutcomeOK || r.expects(call)
}

// expects reports whether call ended with an expected error.
func (r ErrorRules) expects(call evidence.Call) bool {
	if !call.Outcome.Failed() {
		return false
	}
	return slices.ContainsFunc(r.Expected, func(e ExpectedError) bool {
		return (e.Server == "" || e.Server == call.Server) && e.Tool.Matches(call.Tool) &&
			(e.Code == nil || call.Outcome == evidence.OutcomeProtocolError && *e.Code == codeOf(call))
	})
}

func codeOf(call evidence.Call) int64 {
	code, _ := call.ErrorCode() // 0 without one
	return code
}

// counts reports whether call is an error of a kind that counts. Errors that waza injected do not count.
func (r ErrorRules) counts(call evidence.Call) bool {
	return call.Fault == "" && call.Outcome.Failed() && (r.Count == nil || slices.Contains(r.Count, errorKinds[call.Outcome]))
}

// sort returns the failures among calls, which are in the order of their requests.
func (r ErrorRules) sort(calls []evidence.Call) failures {
	var f failures
	for i, call := range calls {
		switch {
		case r.expects(call):
			f.expected = append(f.expected, call)
		case r.counts(call):
			if by, ok := r.recovery(call, calls[i+1:]); ok {
				f.recovered = append(f.recovered, recovered{call, by})
			} else {
				f.counted = append(f.counted, call)
			}
		}
	}
	return f
}

// recovery finds the success among later calls that recovers failed.
func (r ErrorRules) recovery(failed evidence.Call, later []evidence.Call) (evidence.Call, bool) {
	if r.Recovery == nil {
		return evidence.Call{}, false
	}
	seen := 0
	for _, call := range later {
		if !follows(call, failed) {
			continue
		}
		if seen++; seen > r.Recovery.Window {
			break
		}
		same := call.Server == failed.Server && call.Tool == failed.Tool
		if same && call.Outcome == evidence.OutcomeOK &&
			(r.Recovery.Require != "adapted" || !jsontext.Same(call.Arguments, failed.Arguments)) {
			return call, true
		}
	}
	return evidence.Call{}, false
}

// follows reports whether call was made after before had ended. If before has no recorded answer, its end is
// unknown, and any later call follows it.
func follows(call, before evidence.Call) bool {
	return call.RequestFrame > max(before.RequestFrame, before.ResponseFrame)
}

// part returns the score for errors: 1 up to the limit, and beyond it the limit divided by the number of
// errors.
func (f failures) part(limit int) float64 {
	if len(f.counted) <= limit {
		return 1
	}
	return float64(limit) / float64(len(f.counted))
}

// why describes the failure of a call.
func why(call evidence.Call) string {
	ended := string(call.Outcome)
	if code := codeOf(call); code != 0 {
		ended += " " + strconv.FormatInt(code, 10)
	}
	message := jsontext.Text(jsontext.Member(call.Error, "message"))
	result, err := call.Result.Raw()
	if err != nil {
		message = err.Error()
	}
	for block := range jsontext.Elements(jsontext.Member(result, "content")) {
		message = cmp.Or(message, jsontext.Text(jsontext.Member(block, "text")))
		break
	}
	if message != "" {
		ended += ": " + quote(text.FirstLine(message))
	}
	if wrong := capture.Wrong(call); wrong != "" && call.Outcome == evidence.OutcomeProtocolError {
		ended += " (its answer is wrong: " + text.Fit(text.FirstLine(wrong), 200) + ")"
	}
	return ended
}

// finding describes the failed calls.
func (f failures) finding(limit int) finding {
	got := fmt.Sprintf("found %d: %s.", len(f.counted), listOf(f.counted, func(call evidence.Call) string {
		return describeAs(call, why(call))
	}))
	if len(f.recovered) > 0 {
		got += " Not counted are those that were made good: " + listOf(f.recovered, func(r recovered) string {
			return fmt.Sprintf("call %d by call %d", r.failed.Seq, r.by.Seq)
		}) + "."
	}
	return finding{f.expects(limit), got, numbers(f.counted)}
}

func (f failures) expects(limit int) string {
	return "at most " + text.Count(limit, "call") + " to fail"
}

// notes lists the successes that read like errors.
func (f failures) notes() []string {
	if len(f.soft) == 0 {
		return nil
	}
	return []string{fmt.Sprintf("Results that read like errors, and are none by their servers' word: %s.", listOf(f.soft, func(soft softFailure) string {
		return describeAs(soft.Call, soft.why)
	}))}
}

// softError explains how a successful result looks like an error, or returns "". It checks
// fields of the structured content, or of the first text if that is an object, and
// otherwise the beginning of that text. This is a heuristic.
func softError(result json.RawMessage) string {
	if why := objectError(jsontext.Member(result, "structuredContent")); why != "" {
		return why
	}
	for block := range jsontext.Elements(jsontext.Member(result, "content")) {
		if jsontext.Text(jsontext.Member(block, "type")) != "text" {
			continue
		}
		said := jsontext.Text(jsontext.Member(block, "text"))
		if why := objectError(json.RawMessage(said)); why != "" {
			return why
		}
		if errorText.MatchString(said) {
			return fmt.Sprintf("it begins with %s", quote(text.FirstLine(said)))
		}
		return ""
	}
	return ""
}

// objectError looks for fields of an object with which servers report errors.
func objectError(raw json.RawMessage) string {
	var fields map[string]json.RawMessage
	if json.Unmarshal(raw, &fields) != nil {
		return ""
	}
	for _, key := range []string{"error", "errors", "isError"} {
		switch value := strings.TrimSpace(string(fields[key])); value {
		case "", "null", "false", `""`, "[]", "{}", "0":
		default:
			return fmt.Sprintf("it has %s: %s", key, clip(value))
		}
	}
	for _, key := range []string{"success", "ok"} {
		if strings.TrimSpace(string(fields[key])) == "false" {
			return "it has " + key + ": false"
		}
	}
	var status string
	if json.Unmarshal(fields["status"], &status) == nil && failedStatus.MatchString(status) {
		return "it has status: " + clip(string(fields["status"]))
	}
	return ""
}

var (
	failedStatus = regexp.MustCompile(`(?i)\A(?:error|failed|failure)\z`)
	// errorText matches the beginning of texts that report an error, after marks and emoji.
	errorText = regexp.MustCompile(`(?i)\A[^\pL\pN]*(?:` + strings.Join([]string{
		`(?:\w+ ){0,3}error\s*:`,
		`error (?:calling|executing|processing|fetching|reading|writing|while|when|in|during|occurred)\b`,
		`(?:failed|unable) to \w`, `could not \w`, `failure:`, `(?:unhandled |uncaught )?exception\b.{0,80}:`,
		`traceback \(most recent`, `unknown tool\b`, `(?:access|permission) denied\b`,
		`invalid (?:argument|parameter|request|input)s?\b`,
	}, "|") + `)`)
)

func errorDetails(f failures) map[string]any {
	made := []any{}
	for _, one := range f.recovered {
		made = append(made, map[string]any{"call": one.failed.Seq, "by": one.by.Seq})
	}
	return map[string]any{
		"counted": numbers(f.counted), "expected": numbers(f.expected), "recovered": made, "soft": numbers(mapped(f.soft, func(s softFailure) evidence.Call { return s.Call })),
	}
}
