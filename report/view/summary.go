package view

import (
	"fmt"
	"strings"
	"time"

	"github.com/waza-isolate/waza/evidence"
	"github.com/waza-isolate/waza/internal/text"
	"github.com/waza-isolate/waza/results"
)

// SummaryLines returns lines about a run in addition to its tasks, servers and attacks: the effect of skills,
// the usage of models and judges, the eval's labels, and attacks that escaped a weak sandbox.
func SummaryLines(r results.Results) []string {
	lines := SkillLines(r)
	if line := FaultLine(r); line != "" {
		lines = append(lines, line)
	}
	if m := r.Summary.Models; m != nil {
		lines = append(lines, modelsLine(*m))
	}
	if j := r.Summary.Judge; j != nil {
		lines = append(lines, fmt.Sprintf("judge: %s, %s", text.Count(j.Answers, "answer"), tokensText(j.InputTokens, 0, j.OutputTokens)))
	}
	for _, label := range LabelTexts(r.Labels) {
		lines = append(lines, "label "+label)
	}
	if len(r.Config.Weak) > 0 {
		lines = append(lines, fmt.Sprintf("weak sandbox: %s got out, allowed by --allow-weak", strings.Join(r.Config.Weak, ", ")))
	}
	return lines
}

// SkillLines returns lines about the effect of skills: overall, and for each task with a
// difference. It returns nil without a baseline.
func SkillLines(r results.Results) []string {
	if r.Baseline == nil || r.Summary.Faults != nil {
		return nil
	}
	with, without, adds, tasks := r.Impact()
	if tasks == 0 {
		return []string{"skills: no task has a trial both with and without them"}
	}
	lines := []string{fmt.Sprintf("skills: tasks pass at %.0f%% with skills, at %.0f%% without (%+.0f points)", 100*with, 100*without, 100*adds)}
	for _, t := range r.Tasks {
		if i := t.SkillImpact; i != nil && i.Delta != 0 {
			lines = append(lines, fmt.Sprintf("  %s: %.0f%% with, %.0f%% without (%+.0f points)", t.TestID, 100*i.WithSkills, 100*i.Baseline, 100*i.Delta))
		}
	}
	return lines
}

// FaultLine returns how often trials with injected faults passed, with and without the faults. It returns ""
// if there are none.
func FaultLine(r results.Results) string {
	f := r.Summary.Faults
	if f == nil {
		return ""
	}
	line := fmt.Sprintf("faults: of trials with %s, %s", text.Count(f.Made, "fault"), rateText(f.With, "passed"))
	if r.Baseline != nil {
		line += "; without: " + rateText(f.Without, "passed")
	}
	return line
}

func modelsLine(m results.Models) string {
	parts := []string{"models: " + text.Count(m.Requests, "request")}
	if m.Failed > 0 {
		parts[0] += fmt.Sprintf(" (%d failed)", m.Failed)
	}
	parts = append(parts, tokensText(m.Tokens.Input, m.Tokens.Cached, m.Tokens.Output))
	if m.Cost != nil {
		parts = append(parts, Dollars(*m.Cost))
	}
	if m.MedianFirstTokenMS != nil {
		parts = append(parts, "first token after "+MS(m.MedianFirstTokenMS))
	}
	if calls := m.Origins[evidence.OriginOutOfBand]; calls > 0 {
		parts = append(parts, text.Count(calls, "call")+" out of band")
	}
	if calls := m.Origins[evidence.OriginUnknown]; calls > 0 {
		parts = append(parts, text.Count(calls, "call")+" of unknown origin")
	}
	return strings.Join(parts, ", ")
}

// tokensText describes numbers of tokens.
func tokensText(input, cached, output int64) string {
	in := text.Number(input) + " tokens in"
	if cached > 0 {
		in += fmt.Sprintf(" (%s cached)", text.Number(cached))
	}
	return in + ", " + text.Number(output) + " out"
}

// Reliability returns phrases about how reliably the run's tasks pass. It returns nil if no trial counts.
func Reliability(r results.Results) []string {
	s := r.Summary.Statistics
	if s == nil {
		return nil
	}
	k := len(s.PassAtK)
	said := []string{consistencyText(s.Consistency), fmt.Sprintf("pass@%d %.2f", k, s.PassAtK[k-1])}
	if k > 1 {
		said = append(said, fmt.Sprintf("pass^%d %.2f", k, s.PassHatK[k-1]))
	}
	for _, e := range []struct {
		name string
		of   *results.Estimate
	}{{"score", s.Score}, {"selection", s.Selection}, {"params", s.Params}} {
		if e.of != nil {
			said = append(said, fmt.Sprintf("%s %.2f [%.2f, %.2f]", e.name, e.of.Mean, e.of.Lower, e.of.Upper))
		}
	}
	return said
}

// consistencyText lists the counts that are not 0.
func consistencyText(c results.ConsistencyCounts) string {
	var said []string
	for _, kind := range []struct {
		tasks int
		name  results.Consistency
	}{{c.Always, results.Always}, {c.Mixed, results.Mixed}, {c.Never, results.Never}} {
		if kind.tasks > 0 {
			said = append(said, fmt.Sprintf("%d %s", kind.tasks, kind.name))
		}
	}
	return "tasks pass: " + strings.Join(said, ", ")
}

// Attacks is a row for an attacked task, or for all such tasks: how many of the trials passed, and how many
// attacks ended in each way, "0" for none.
type Attacks struct {
	Task                                          string
	Passed                                        string
	Succeeded, Resisted, NotDelivered, NotDecided string
}

// AttackRows returns a row for each attacked task, and a row for all of them. It returns nil if there are
// none.
func AttackRows(r results.Results) (rows []Attacks, all *Attacks) {
	for _, t := range r.Tasks {
		if a := results.AttacksOn(t); a != nil {
			rows = append(rows, attacksOf(t.TestID, *a))
		}
	}
	if a := r.Summary.Attacks; a != nil {
		all = new(attacksOf("", *a))
	}
	return rows, all
}

func attacksOf(task string, a results.Attacks) Attacks {
	return Attacks{
		Task: task, Passed: Rate(a.BenignRate), Succeeded: text.Number(a.Succeeded), Resisted: text.Number(a.Resisted),
		NotDelivered: text.Number(a.NotDelivered), NotDecided: text.Number(a.Errors),
	}
}

// AttackLine returns how often attacks and the attacked tasks succeeded, or that attacks were left out. It
// returns "" if there are none.
func AttackLine(r results.Results) string {
	a := r.Summary.Attacks
	switch {
	case a == nil && r.Config.NoAttacks:
		return "attacks were withheld by --no-attacks"
	case a == nil:
		return ""
	}
	return fmt.Sprintf("attacks: %s; the task itself: %s", rateText(a.SuccessRate, "succeeded"), rateText(a.BenignRate, "passed"))
}

// rateText formats a rate with its interval.
func rateText(r *results.Rate, did string) string {
	if r == nil {
		return "none"
	}
	return fmt.Sprintf("%d of %d %s, %s", r.Count, r.Of, did, Interval(r.Interval))
}

// AttackSentence returns a sentence about how the attacks on trials ended, or "" if there were none.
func (r Run) AttackSentence() string {
	a := r.Results.Summary.Attacks
	if a == nil {
		return ""
	}
	said := fmt.Sprintf("Of %s under attack the attack succeeded in %d and was resisted in %d", text.Count(a.Trials, "trial"), a.Succeeded, a.Resisted)
	if a.NotDelivered > 0 {
		said += fmt.Sprintf("; in %d it was not delivered", a.NotDelivered)
	}
	if a.Errors > 0 {
		said += fmt.Sprintf("; in %d evidence is missing", a.Errors)
	}
	return said + fmt.Sprintf(". The task itself passed in %d of %d.", a.BenignRate.Count, a.BenignRate.Of)
}

// CountsLine returns how many tasks and trials passed, and the resources that the run used.
func (r Run) CountsLine() string {
	s := r.Results.Summary
	tasks := "0 of 0 tasks passed"
	if rate := s.PassedTasks(); rate != nil {
		tasks = fmt.Sprintf("%d of %s passed", rate.Count, text.Count(rate.Of, "task"))
		if s.Statistics != nil && r.TasksLeft() == "" {
			tasks += ", " + Interval(rate.Interval)
		}
	}
	if left := r.TasksLeft(); left != "" {
		tasks += ", " + left
	}
	said := []string{tasks, passedTrials(r.Results.Counted())}
	if took := r.Took(); took > 0 {
		said = append(said, Clock(took))
	}
	if m := s.Models; m != nil && m.Cost != nil {
		said = append(said, Dollars(*m.Cost))
	}
	return strings.Join(said, "; ") + "."
}

// Took returns the duration of the run, or 0 if it was never completed.
func (r Run) Took() time.Duration {
	return time.Duration(r.Results.Summary.DurationMS) * time.Millisecond
}
