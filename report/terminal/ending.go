package terminal

import (
	"cmp"
	"fmt"
	"io"
	"math"
	"regexp"
	"slices"
	"strings"

	"github.com/waza-isolate/waza/internal/text"
	"github.com/waza-isolate/waza/report/view"
)

const (
	// maxFailures is the maximum number of failed trials listed.
	maxFailures = 20
	// maxSlowest is the number of slowest trials listed, if there are more.
	maxSlowest = 3
)

// Ending is the summary at the end of a run.
type Ending struct {
	Run    view.Run
	Style  Style
	Report string // path of the run's report; empty for none
	Width  int    // of lines, in columns; 0 for no limit. Commands and paths are not broken.
}

// Write writes what did not pass and why, where the evidence is, and the verdict in the
// last line.
func (e Ending) Write(w io.Writer) error {
	tasks := view.Tasks(e.Run.Results)
	return writeLines(w, []string{""}, e.fit(again(tasks)...), e.failures(tasks, true), e.fit(ungraded(tasks)...), e.fit(events(tasks)...),
		e.fit(view.LostServers(e.Run.Results)...), e.fit(slowest(tasks)...), e.fit(e.triggers()...), e.places(), e.fit(Verdict(e.Run, e.Style)))
}

// WriteShort writes the same as Write, with one line per failed trial.
func (e Ending) WriteShort(w io.Writer) error {
	tasks := view.Tasks(e.Run.Results)
	return writeLines(w, e.failures(tasks, false), e.fit(e.triggers()...), e.places(), e.fit(Verdict(e.Run, e.Style)))
}

// fit breaks lines like [wrapped].
func (e Ending) fit(lines ...string) []string {
	if e.Width == 0 || len(lines) == 0 {
		return lines
	}
	return strings.Split(strings.TrimSuffix(string(wrapped([]byte(strings.Join(lines, "\n")), e.Width)), "\n"), "\n")
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
			if line := trial.AttemptsLine(); line != "" {
				lines = append(lines, text.Inert(line))
			}
		}
	}
	return lines
}

// failures returns why trials did not pass and which attacks succeeded, grouped, and how to see more. Each
// group has one line or, with atLength, the full reasons.
func (e Ending) failures(tasks []view.Task, atLength bool) (lines []string) {
	left := 0 // number of trials not listed
	for i, g := range view.Failures(tasks, math.MaxInt) {
		if i >= maxFailures {
			left += len(g.Trials)
			continue
		}
		head := fmt.Sprintf("%s %s", whichText(g), Paint(e.Style, g.What.State)(g.What.Word))
		if atLength {
			lines = append(lines, e.fit(whyLines(head, g.What.Why(g.First))...)...)
		} else {
			lines = append(lines, e.fit(strings.TrimSuffix(head+": "+g.What.Why(g.First).Line(), ": "))...)
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

// whichText names the trials of a group, such as price/1,3 or price (all 4).
func whichText[T comparable](g view.Alike[T]) string {
	if all := g.All(); all != "" {
		return fmt.Sprintf("%s (%s)", text.Inert(g.Task.TestID), all)
	}
	return text.Inert(g.Task.TestID) + "/" + numbersText(g.Trials)
}

// triggers returns a line about the results of trigger_tests.yaml.
func (e Ending) triggers() []string {
	if line := e.Run.TriggerSentence(); line != "" {
		return []string{text.Inert(line)}
	}
	return nil
}

// whyLines returns head with the reason of something that happened in a trial, and further lines.
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

// bothEnds returns the first and last lines of an untrusted text; lines after the first are indented. It
// removes stack frames from long texts first.
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
func slowest(tasks []view.Task) []string {
	var all []view.Trial
	for _, task := range tasks {
		all = append(all, task.Trials...)
	}
	if len(all) <= maxSlowest {
		return nil
	}
	slices.SortStableFunc(all, func(a, b view.Trial) int { return cmp.Compare(b.Took, a.Took) })
	var named []string
	for _, t := range all[:maxSlowest] {
		named = append(named, text.Inert(t.Name)+" "+view.Clock(t.Took))
	}
	return []string{"slowest: " + strings.Join(named, ", ")}
}

// places returns lines about where to look, and how to continue.
func (e Ending) places() (lines []string) {
	if i := e.Run.Isolation(); !e.Run.Isolated {
		lines = append(e.fit(i.Word+": "+i.Text), "")
	}
	if e.Report != "" {
		lines = append(lines, "report: "+e.Report)
	}
	lines = append(lines, "run directory: "+e.Run.Dir)
	if e.Run.Resumable() {
		when := ""
		if e.Run.Missing() == 0 { // all trials without a verdict ended as infra
			when = ", once the cause is mended"
		}
		lines = append(lines, "to complete it"+when+": waza run --resume "+text.ShellWord(e.Run.Dir))
	}
	return lines
}

// ungraded returns lines about misreported calls for which no grader failed the trial.
func ungraded(tasks []view.Task) (lines []string) {
	for _, m := range view.Gather(tasks, view.Trial.Misreported) {
		lines = append(lines, text.Indented(whichText(m)+" "+m.What))
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
