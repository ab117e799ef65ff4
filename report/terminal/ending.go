package terminal

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"math"
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
	Run    view.Run
	Style  Style
	Report string // path of the run's report; empty for none
}

// Write writes what did not pass and why, where the evidence is, and the verdict in the
// last line.
func (e Ending) Write(w io.Writer) error {
	tasks := view.Tasks(e.Run.Results)
	return writeLines(w, []string{""}, again(tasks), e.failures(tasks, true), ungraded(tasks), events(tasks), lostServers(e.Run.Results.Tasks),
		e.slowest(), e.triggers(), e.places(), []string{Verdict(e.Run, e.Style)})
}

// WriteShort writes the same with one line per failed trial.
func (e Ending) WriteShort(w io.Writer) error {
	tasks := view.Tasks(e.Run.Results)
	return writeLines(w, e.failures(tasks, false), e.triggers(), e.places(), []string{Verdict(e.Run, e.Style)})
}

// Verdict returns the last line of a run's output.
func Verdict(r view.Run, style Style) string {
	word, counts, _ := strings.Cut(text.Inert(r.Line()), ":")
	return Paint(style, view.StateOf(r.Verdict()))(word) + ":" + counts
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
func again(tasks []view.Task) (lines []string) {
	for _, task := range tasks {
		for _, trial := range task.Trials {
			if line := attemptsBefore(trial); line != "" {
				lines = append(lines, line)
			}
		}
	}
	return lines
}

// failures returns why trials did not pass and which attacks succeeded, grouped, and how to see more: in
// one line each, or in full.
func (e Ending) failures(tasks []view.Task, atLength bool) (lines []string) {
	left := 0 // number of trials not listed
	for i, g := range view.Failures(tasks, math.MaxInt) {
		if i >= maxFailures {
			left += len(g.Trials)
			continue
		}
		head := fmt.Sprintf("%s/%s %s", text.Inert(g.Task.TestID), numbersText(g.Trials), Paint(e.Style, g.What.State)(g.What.Word))
		if atLength {
			lines = append(lines, whyLines(head, g.What.Why(g.First))...)
		} else {
			lines = append(lines, strings.TrimSuffix(head+": "+g.What.Why(g.First).Line(), ": "))
		}
		lines = append(lines, e.Style.Faint(fmt.Sprintf("  waza show %s %s %d", text.ShellWord(e.Run.Dir), text.ShellWord(g.Task.TestID), g.Trials[0])))
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

// triggers returns a line about the results of trigger_tests.yaml.
func (e Ending) triggers() []string {
	if line := e.Run.TriggerSentence(); line != "" {
		return []string{text.Inert(line)}
	}
	return nil
}

// whyLines returns head with why something happened in a trial, and further lines.
func whyLines(head string, why view.Why) []string {
	if why.Own != "" {
		head += ": " + bothEnds(why.Own)
	}
	lines := []string{head}
	for _, reason := range why.Others() {
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
	type timed struct {
		trial string
		took  time.Duration
	}
	var all []timed
	for _, task := range e.Run.Results.Tasks {
		for _, run := range task.Runs {
			all = append(all, timed{fmt.Sprintf("%s/%d", text.Inert(task.TestID), run.RunNumber), run.Took})
		}
	}
	if len(all) <= slowest {
		return nil
	}
	slices.SortStableFunc(all, func(a, b timed) int { return cmp.Compare(b.took, a.took) })
	var named []string
	for _, t := range all[:slowest] {
		named = append(named, t.trial+" "+view.Clock(t.took))
	}
	return []string{"slowest: " + strings.Join(named, ", ")}
}

// places returns lines about where to look, and how to continue.
func (e Ending) places() (lines []string) {
	if i := e.Run.Isolation(); !e.Run.Isolated {
		lines = append(lines, i.Word+": "+i.Text, "")
	}
	if e.Report != "" {
		lines = append(lines, "report: "+e.Report)
	}
	lines = append(lines, "run directory: "+e.Run.Dir)
	if e.Run.Resumable() {
		when := ""
		if e.Run.Missing() == 0 { // all that lack a verdict ended as infra
			when = ", once the cause is mended"
		}
		lines = append(lines, "to complete it"+when+": waza run --resume "+text.ShellWord(e.Run.Dir))
	}
	return lines
}

// attemptsBefore describes the earlier attempts at a trial, or returns "" if there were none.
func attemptsBefore(t view.Trial) string {
	if len(t.Before) == 0 {
		return ""
	}
	said := func(reason evidence.Reason, message string) string {
		return strings.TrimPrefix(fmt.Sprintf("%s: %s", reason, text.Inert(text.FirstLine(message))), ": ")
	}
	var why, ends []string
	for _, attempt := range t.Before {
		why, ends = append(why, said(attempt.Reason, attempt.Message)), append(ends, string(attempt.Outcome))
	}
	if why = slices.Compact(why); len(why) == 1 && why[0] == said(t.Reason, t.Message) {
		why = []string{"for the same reason"}
	}
	slices.Sort(ends)
	return fmt.Sprintf("%s %s after %s that ended as %s: %s",
		text.Inert(t.Name), t.Outcome, text.Count(len(t.Before), "attempt"), strings.Join(slices.Compact(ends), " and "), strings.Join(why, "; "))
}

// ungraded returns lines about misreported calls that no grader failed.
func ungraded(tasks []view.Task) (lines []string) {
	for _, m := range view.Gather(tasks, view.Trial.Misreported) {
		lines = append(lines, text.Indented(fmt.Sprintf("%s/%s %s", m.Task.TestID, numbersText(m.Trials), m.What)))
	}
	return lines
}

// events returns lines about servers and mocks: see [view.Events].
func events(tasks []view.Task) (lines []string) {
	for _, task := range tasks {
		for _, trial := range task.Trials {
			for _, event := range view.Events(trial.RunResult) {
				lines = append(lines, text.Indented(trial.Name+" "+event.Line()))
			}
		}
	}
	return lines
}

// lostServers returns lines about shared servers that died, with the trials that were
// running.
func lostServers(tasks []results.Task) []string {
	trials := map[string][]string{}
	for _, task := range tasks {
		for _, run := range task.Runs {
			var shared []evidence.SharedServer
			for _, attempt := range run.Earlier {
				shared = append(shared, attempt.Shared...)
			}
			for _, s := range append(shared, run.Shared...) {
				if s.Died != "" {
					lost := fmt.Sprintf("server %q, which the run shares, died (%s) while these trials were at work", s.Name, s.Died)
					trials[lost] = append(trials[lost], fmt.Sprintf("%s/%d", task.TestID, run.RunNumber))
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
