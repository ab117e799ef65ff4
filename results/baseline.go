package results

import (
	"fmt"
	"slices"

	"github.com/waza-isolate/waza/evidence"
)

// SkillImpact is what skills change in a task. Rates are of the trials that count.
type SkillImpact struct {
	WithSkills    float64 `json:"pass_rate_with_skills"`
	Baseline      float64 `json:"pass_rate_baseline"`
	Delta         float64 `json:"delta"`
	PercentChange float64 `json:"percent_change"` // of the baseline's; 100 where that is 0 and the other is not
}

// Against holds r against the same run without skills, task by task. A task without a
// counted trial in both has no impact.
func (r *Results) Against(base Results) (err error) {
	base.IsBaseline, base.Baseline = true, nil
	if r.Baseline, err = evidence.Marshal(base); err != nil {
		return err
	}
	for i, task := range r.Tasks {
		at := slices.IndexFunc(base.Tasks, func(t Task) bool { return t.TestID == task.TestID })
		if at < 0 || task.Stats == nil || base.Tasks[at].Stats == nil {
			continue
		}
		impact := SkillImpact{WithSkills: task.Stats.PassRate, Baseline: base.Tasks[at].Stats.PassRate}
		impact.Delta = impact.WithSkills - impact.Baseline
		switch {
		case impact.Baseline > 0:
			impact.PercentChange = 100 * impact.Delta / impact.Baseline
		case impact.Delta > 0:
			impact.PercentChange = 100
		}
		r.Tasks[i].SkillImpact = &impact
	}
	return nil
}

// impacts are those of the tasks that have one.
func (r Results) impacts() (with, without, deltas []float64) {
	for _, t := range r.Tasks {
		if i := t.SkillImpact; i != nil {
			with, without, deltas = append(with, i.WithSkills), append(without, i.Baseline), append(deltas, i.Delta)
		}
	}
	return with, without, deltas
}

// impact is the mean over tasks of what skills add to the pass rate.
func (r Results) impact() float64 {
	_, _, deltas := r.impacts()
	return mean(deltas)
}

// SkillLines say what skills change: in all, and then in each task where they change
// something. There are none without a baseline.
func (r Results) SkillLines() []string {
	if r.Baseline == nil {
		return nil
	}
	with, without, deltas := r.impacts()
	if len(deltas) == 0 {
		return []string{"skills: no task has a trial both with and without them"}
	}
	lines := []string{fmt.Sprintf("skills: tasks pass at %.0f%% with skills, at %.0f%% without (%+.0f points)", 100*mean(with), 100*mean(without), 100*mean(deltas))}
	for _, t := range r.Tasks {
		if i := t.SkillImpact; i != nil && i.Delta != 0 {
			lines = append(lines, fmt.Sprintf("  %s: %.0f%% with, %.0f%% without (%+.0f points)", t.TestID, 100*i.WithSkills, 100*i.Baseline, 100*i.Delta))
		}
	}
	return lines
}
