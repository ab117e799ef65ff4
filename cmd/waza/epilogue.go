package main

import (
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/waza-isolate/waza/evidence"
	"github.com/waza-isolate/waza/internal/ansi"
	"github.com/waza-isolate/waza/internal/liveview"
	"github.com/waza-isolate/waza/results"
	"github.com/waza-isolate/waza/runner"
)

const (
	// maxFailures is how many trials that did not pass a run's end tells of.
	maxFailures = 20
	// slowest is how many trials it names that took longest, where it has more.
	slowest = 3
)

// ending is the end of a run, for a person.
type ending struct {
	dir    string
	record runner.Record
	done   []runner.Result
	style  ansi.Style
}

// epilogue says what did not pass and why, and where the evidence is.
func (j *job) epilogue(dir string, record runner.Record, summary results.Results, done []runner.Result) {
	e := ending{dir, record, done, j.styleOf(j.stdout)}
	if j.options.loudness == quiet {
		j.printLines(e.failures(false), []string{e.tally()})
	} else {
		fmt.Fprintln(j.stdout)
		j.printLines(e.again(), e.failures(true))
		j.narrations(summary)
		j.printLines(serversEnds(summary), lostServers(done), e.slowest())
	}
	j.printLines(e.triggers(summary))
	j.printLines(e.missing(), e.places())
}

func (s *state) printLines(blocks ...[]string) {
	for _, line := range slices.Concat(blocks...) {
		fmt.Fprintln(s.stdout, line)
	}
}

// again says of what trials came before the attempt that counts.
func (e ending) again() (lines []string) {
	for _, r := range e.done {
		if line := attemptsBefore(r); line != "" {
			lines = append(lines, line)
		}
	}
	return lines
}

// failures says of trials why they did not pass, and how to see more: in a line, or at
// length with all that graders say.
func (e ending) failures(atLength bool) (lines []string) {
	left := 0
	for _, r := range e.done {
		if r.Verdicts.Class == evidence.ClassPass || e.isTrigger(r) {
			continue
		}
		if left++; left > maxFailures {
			continue
		}
		class := liveview.Paint(e.style, r.Verdicts.Class)(r.Verdicts.Class.With(r.Verdicts.Reason))
		lines = append(lines, whyLines(fmt.Sprintf("%s/%d %s", printable(r.Trial.Task), r.Trial.Number, class), results.WhyOf(withLastWords(r)), atLength)...)
		lines = append(lines, e.style.Faint(fmt.Sprintf("  waza show %s %s %d", shellWord(e.dir), shellWord(r.Trial.Task), r.Trial.Number)))
	}
	if more := left - maxFailures; more > 0 {
		lines = append(lines, fmt.Sprintf("and %d more that did not pass; waza show %s lists all trials", more, shellWord(e.dir)))
	}
	return lines
}

// isTrigger says whether a trial is of a prompt of trigger_tests.yaml.
func (e ending) isTrigger(r runner.Result) bool {
	return slices.ContainsFunc(e.record.Tasks, func(t runner.TaskRecord) bool { return t.ID == r.Trial.Task && t.Trigger != nil })
}

// triggers says what the prompts of trigger_tests.yaml came to, which decide by their metric.
func (e ending) triggers(summary results.Results) []string {
	m := summary.Triggers
	if m == nil {
		return nil
	}
	line := fmt.Sprintf("trigger_accuracy %.3f: %d of %d prompts of trigger_tests.yaml were right", m.Accuracy, m.TruePositives+m.TrueNegatives, len(summary.TriggerResults))
	var wrong []string
	for _, r := range e.done {
		if e.isTrigger(r) && r.Verdicts.Class != evidence.ClassPass {
			wrong = append(wrong, printable(r.Trial.Task))
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

// whyLines adds to a head why a trial did not pass, and further lines.
func whyLines(head string, why results.Why, atLength bool) []string {
	if !atLength {
		why = results.Why{Own: why.Line()}
	}
	if why.Own != "" {
		head += ": " + beginning(why.Own)
	}
	lines := []string{head}
	why.Own = ""
	for _, reason := range why.Reasons() {
		lines = append(lines, "  "+beginning(reason))
	}
	return lines
}

// withLastWords is what came of a trial; where its agent ended by itself, with what that
// said last.
func withLastWords(r runner.Result) evidence.Verdicts {
	v := r.Verdicts
	if v.Reason != evidence.ReasonExitCode && v.Reason != evidence.ReasonSignal {
		return v
	}
	if said := r.Dir.LastWords(); said != "" {
		first, rest, _ := strings.Cut(v.Message, "\n")
		v.Message = strings.TrimSuffix(first+": "+said+"\n"+rest, "\n")
	}
	return v
}

// beginning is the beginning of what a stranger said, set in below its first line.
func beginning(text string) string {
	text, left := clip(strings.TrimRight(text, "\n"))
	if left > 0 {
		text += "…"
	}
	return indented(text)
}

// slowest names the trials that took longest.
func (e ending) slowest() []string {
	if len(e.done) <= slowest {
		return nil
	}
	took := func(r runner.Result) time.Duration { return r.Trial.Ended.Sub(r.Trial.Started) }
	sorted := slices.SortedStableFunc(slices.Values(e.done), func(a, b runner.Result) int { return cmp.Compare(took(b), took(a)) })
	var named []string
	for _, r := range sorted[:slowest] {
		named = append(named, fmt.Sprintf("%s/%d %.1fs", printable(r.Trial.Task), r.Trial.Number, took(r).Seconds()))
	}
	return []string{"slowest: " + strings.Join(named, ", ")}
}

// tally is how many trials passed.
func (e ending) tally() string {
	passed := 0
	for _, r := range e.done {
		if r.Verdicts.Class == evidence.ClassPass {
			passed++
		}
	}
	text := fmt.Sprintf("%d of %d trials passed", passed, e.record.Planned())
	if passed == e.record.Planned() {
		return e.style.Good(text)
	}
	return e.style.Bad(text)
}

// missing says how many trials have no outcome, and that nothing was isolated.
func (e ending) missing() (lines []string) {
	if missing := e.record.Planned() - len(e.done); missing > 0 {
		why := ""
		if e.record.Interrupted {
			why = "interrupted: "
		}
		lines = append(lines, fmt.Sprintf("%s%d of %d trials have no outcome", why, missing, e.record.Planned()))
	}
	if !e.record.Isolated {
		lines = append(lines, notIsolated)
	}
	return lines
}

// places says where to look, and how to go on.
func (e ending) places() (lines []string) {
	report := filepath.Join(e.dir, runner.ReportFile)
	if info, err := os.Stat(report); err == nil && info.Mode().IsRegular() {
		lines = append(lines, "report: "+report)
	}
	lines = append(lines, "run directory: "+e.dir)
	if isResumable(e.record, e.done) {
		lines = append(lines, "to complete it: waza run --resume "+shellWord(e.dir))
	}
	return lines
}
