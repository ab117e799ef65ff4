package terminal

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/waza-isolate/waza/evidence"
	"github.com/waza-isolate/waza/internal/text"
	"github.com/waza-isolate/waza/report/view"
	"github.com/waza-isolate/waza/results"
)

const (
	// maxFailures is the maximum number of failed trials listed.
	maxFailures = 20
	// slowest is the number of slowest trials listed, if there are more.
	slowest = 3
)

// Ending is the summary at the end of a run.
type Ending struct {
	Run       view.Run
	Trials    []Trial
	Style     Style
	Report    string // path of the run's report; empty for none
	Resumable bool   // resuming could yield missing outcomes
}

// Trial is a trial that has ended, with its last attempt.
type Trial struct {
	evidence.Trial
	Verdicts evidence.Verdicts
	Earlier  []evidence.Trial // earlier attempts
}

func (t Trial) took() time.Duration { return t.Ended.Sub(t.Started) }

// Write writes what did not pass and why, where the evidence is, and the verdict in the
// last line.
func (e Ending) Write(w io.Writer) error {
	return writeLines(w, []string{""}, e.again(), e.failures(true), e.ungraded(), events(e.Run.Results), lostServers(e.Trials),
		e.slowest(), e.triggers(), e.places(), []string{Verdict(e.Run, e.Style)})
}

// WriteShort writes the same with one line per failed trial.
func (e Ending) WriteShort(w io.Writer) error {
	return writeLines(w, e.failures(false), e.triggers(), e.places(), []string{Verdict(e.Run, e.Style)})
}

// Verdict returns the last line of a run's output.
func Verdict(r view.Run, style Style) string {
	paint := style.Doubtful
	switch r.Verdict() {
	case view.Passed:
		paint = style.Good
	case view.Failed:
		paint = style.Bad
	}
	word, counts, _ := strings.Cut(text.Inert(r.Line()), ":")
	return paint(word) + ":" + counts
}

// Verdicts returns the last line of the output of a command with several runs.
func Verdicts(of []string, passed bool, style Style) string {
	counts := map[string]int{}
	for _, verdict := range of {
		counts[verdict]++
	}
	said := fmt.Sprintf("%d of %d runs passed", counts[view.Passed], len(of))
	for _, verdict := range []string{view.Failed, view.Incomplete} {
		if counts[verdict] > 0 {
			said += fmt.Sprintf(", %d %s", counts[verdict], verdict)
		}
	}
	if passed {
		return style.Good("PASSED") + ": " + said
	}
	return style.Bad("FAILED") + ": " + said
}

func writeLines(w io.Writer, blocks ...[]string) error {
	for _, line := range slices.Concat(blocks...) {
		if _, err := fmt.Fprintln(w, line); err != nil {
			return err
		}
	}
	return nil
}

// again returns lines about earlier attempts.
func (e Ending) again() (lines []string) {
	for _, r := range e.Trials {
		if line := attemptsBefore(r); line != "" {
			lines = append(lines, line)
		}
	}
	return lines
}

// alike is a group of a task's trials with the same outcome and reasons.
type alike struct {
	task    string
	numbers []int
	outcome string // styled
	why     view.Why
}

// failures returns why trials did not pass, grouped, and how to see more: in one line each,
// or in full.
func (e Ending) failures(atLength bool) (lines []string) {
	var groups []*alike
	at := map[string]*alike{} // by task, outcome and reasons
	left := 0                 // number of trials not listed
	for _, r := range e.Trials {
		if r.Verdicts.Class == evidence.ClassPass || e.isTrigger(r) {
			continue
		}
		why := view.WhyOf(results.Graded(r.Verdicts))
		outcome := Paint(e.Style, r.Verdicts.Class)(r.Verdicts.Class.With(r.Verdicts.Reason))
		key := strings.Join(append(why.Reasons(), r.Task, outcome), "\x00")
		group := at[key]
		if group == nil && len(groups) == maxFailures {
			left++
			continue
		}
		if group == nil {
			group = &alike{task: r.Task, outcome: outcome, why: why}
			at[key], groups = group, append(groups, group)
		}
		group.numbers = append(group.numbers, r.Number)
	}
	for _, g := range groups {
		lines = append(lines, whyLines(fmt.Sprintf("%s/%s %s", text.Inert(g.task), numbersText(g.numbers), g.outcome), g.why, atLength)...)
		lines = append(lines, e.Style.Faint(fmt.Sprintf("  waza show %s %s %d", text.ShellWord(e.Run.Dir), text.ShellWord(g.task), g.numbers[0])))
	}
	if left > 0 {
		lines = append(lines, fmt.Sprintf("and %d more that did not pass; waza show %s lists all trials", left, text.ShellWord(e.Run.Dir)))
	}
	return lines
}

// maxNumbers is the maximum number of trials listed for a group.
const maxNumbers = 10

// numbersText returns the numbers of trials, separated by commas.
func numbersText(numbers []int) string {
	return strings.Join(text.Some(numbers, maxNumbers, func(n int) string { return fmt.Sprint(n) }), ",")
}

// isTrigger reports whether a trial belongs to a prompt of trigger_tests.yaml.
func (e Ending) isTrigger(r Trial) bool {
	return slices.ContainsFunc(e.Run.Results.Tasks, func(t results.Task) bool { return t.TestID == r.Task && t.Trigger != nil })
}

// triggers returns lines about the results of trigger_tests.yaml, which count through their
// metric.
func (e Ending) triggers() []string {
	m := e.Run.Results.Triggers
	if m == nil {
		return nil
	}
	line := fmt.Sprintf("trigger_accuracy %.3f: %d of %d prompts of trigger_tests.yaml were right", m.Accuracy, m.TruePositives+m.TrueNegatives, len(e.Run.Results.TriggerResults))
	var wrong []string
	for _, r := range e.Trials {
		if e.isTrigger(r) && r.Verdicts.Class != evidence.ClassPass {
			wrong = append(wrong, text.Inert(r.Task))
		}
	}
	if left := len(wrong) - maxFailures; left > 0 {
		wrong = append(wrong[:maxFailures], fmt.Sprintf("%d more", left))
	}
	if len(wrong) > 0 {
		line += "; not " + strings.Join(wrong, ", ")
	}
	return []string{line}
}

// namesGraders matches a message that only lists graders.
var namesGraders = regexp.MustCompile(`^(?:failed|could not judge): [^;\n]*$`)

// whyLines returns head with why a trial did not pass, and further lines.
func whyLines(head string, why view.Why, atLength bool) []string {
	if !atLength {
		why = view.Why{Own: why.Line()}
	} else if len(why.Against) > 0 && namesGraders.MatchString(why.Own) {
		why.Own = "" // they are listed below
	}
	if why.Own != "" {
		head += ": " + bothEnds(why.Own)
	}
	lines := []string{head}
	why.Own = ""
	for _, reason := range why.Reasons() {
		lines = append(lines, "  "+bothEnds(reason))
	}
	return lines
}

// stackFrame matches a frame of a stack of Node.js.
var stackFrame = regexp.MustCompile(`^\s*at .+(\)|:\d+)$`)

// bothEnds returns the first and last lines of an untrusted text, indented after the first. From a
// long text it removes frames of stacks first.
func bothEnds(said string) string {
	if all := strings.Split(said, "\n"); len(all) > shownLines {
		kept := slices.DeleteFunc(slices.Clone(all), stackFrame.MatchString)
		if frames := len(all) - len(kept); frames > 0 {
			kept = append(kept, fmt.Sprintf("[%s of a stack left out]", text.Count(frames, "line")))
		}
		said = strings.Join(kept, "\n")
	}
	lines := strings.Split(text.BothEnds(said, shownLines/3, shownLines-shownLines/3), "\n")
	for i, line := range lines {
		lines[i] = text.Shorten(line, shownBytes)
	}
	return text.Indented(strings.Join(lines, "\n"))
}

// slowest lists the slowest trials.
func (e Ending) slowest() []string {
	if len(e.Trials) <= slowest {
		return nil
	}
	sorted := slices.SortedStableFunc(slices.Values(e.Trials), func(a, b Trial) int { return cmp.Compare(b.took(), a.took()) })
	var named []string
	for _, r := range sorted[:slowest] {
		named = append(named, fmt.Sprintf("%s/%d %.1fs", text.Inert(r.Task), r.Number, r.took().Seconds()))
	}
	return []string{"slowest: " + strings.Join(named, ", ")}
}

// places returns lines about where to look, and how to continue.
func (e Ending) places() (lines []string) {
	if !e.Run.Isolated {
		lines = append(lines, NotIsolated)
	}
	if e.Report != "" {
		lines = append(lines, "report: "+e.Report)
	}
	lines = append(lines, "run directory: "+e.Run.Dir)
	if e.Resumable {
		when := ""
		if e.Run.Missing() == 0 { // all that lack a verdict ended as infra
			when = ", once the cause is mended"
		}
		lines = append(lines, "to complete it"+when+": waza run --resume "+text.ShellWord(e.Run.Dir))
	}
	return lines
}

// attemptsBefore describes the earlier attempts, or returns "" if there were none.
func attemptsBefore(r Trial) string {
	if len(r.Earlier) == 0 {
		return ""
	}
	said := func(reason evidence.Reason, message string) string {
		return strings.TrimPrefix(fmt.Sprintf("%s: %s", reason, text.Inert(text.FirstLine(message))), ": ")
	}
	var why, ends []string
	for _, attempt := range r.Earlier {
		why, ends = append(why, said(attempt.Reason, attempt.Message)), append(ends, string(attempt.Class))
	}
	if why = slices.Compact(why); len(why) == 1 && why[0] == said(r.Verdicts.Reason, r.Verdicts.Message) {
		why = []string{"for the same reason"}
	}
	slices.Sort(ends)
	return fmt.Sprintf("%s/%d %s after %s that ended as %s: %s",
		r.Task, r.Number, r.Verdicts.Class, text.Count(len(r.Earlier), "attempt"), strings.Join(slices.Compact(ends), " and "), strings.Join(why, "; "))
}

// ungraded returns lines about misreported calls that no grader failed.
func (e Ending) ungraded() (lines []string) {
	for _, task := range e.Run.Results.Tasks {
		for _, run := range task.Runs {
			if run.Narration == nil || slices.ContainsFunc(view.WhyOf(run).Against, saysMisreported) {
				continue
			}
			for _, sentence := range run.Narration.Sentences {
				lines = append(lines, text.Indented(fmt.Sprintf("%s/%d %s", task.TestID, run.RunNumber, sentence)))
			}
		}
	}
	return lines
}

// saysMisreported reports whether a grader failed a trial because the agent misreported
// calls.
func saysMisreported(v results.Validation) bool {
	gates, _ := v.Details["gates"].(map[string]any)
	for name, gate := range gates {
		if details, _ := gate.(map[string]any); strings.HasPrefix(name, "wire.") && details["result"] == "fail" {
			return true
		}
	}
	return false
}

// events returns lines about servers that ended unexpectedly, changed tool descriptions
// during a trial, or differed from their pin, and about mocks without a matching response.
func events(r results.Results) (lines []string) {
	for _, task := range r.Tasks {
		for _, run := range task.Runs {
			for _, c := range run.Commands {
				if c.ResponseIndex < 0 {
					lines = append(lines, fmt.Sprintf("%s/%d mock of command %q: no response matches %q", task.TestID, run.RunNumber, c.Command, c.Args))
				}
			}
			for _, event := range view.Events(run) {
				is, said := "server", text.Indented(event.Text)
				switch event.Kind {
				case view.Unmatched:
					is = "mock server"
				case view.RugPull:
					said = "rug_pull: " + said
				}
				lines = append(lines, fmt.Sprintf("%s/%d %s %q: %s", task.TestID, run.RunNumber, is, event.Server, said))
			}
		}
	}
	return lines
}

// lostServers returns lines about shared servers that died, with the trials that were
// running.
func lostServers(done []Trial) []string {
	trials := map[string][]string{}
	for _, r := range done {
		for _, attempt := range append(slices.Clone(r.Earlier), r.Trial) {
			for _, s := range attempt.Shared {
				if s.Died != "" {
					lost := fmt.Sprintf("server %q, which the run shares, died (%s) while these trials were at work", s.Name, s.Died)
					trials[lost] = append(trials[lost], fmt.Sprintf("%s/%d", attempt.Task, attempt.Number))
				}
			}
		}
	}
	var lines []string
	for _, lost := range slices.Sorted(maps.Keys(trials)) {
		lines = append(lines, lost+": "+strings.Join(trials[lost], ", "))
	}
	return lines
}
