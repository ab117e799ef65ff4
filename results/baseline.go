package results

import (
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

// Impact is the means over tasks of pass rates with skills and without them, and of what
// skills add; over no tasks all are 0.
func (r Results) Impact() (with, without, adds float64, tasks int) {
	var all, base, deltas []float64
	for _, t := range r.Tasks {
		if i := t.SkillImpact; i != nil {
			all, base, deltas = append(all, i.WithSkills), append(base, i.Baseline), append(deltas, i.Delta)
		}
	}
	return mean(all), mean(base), mean(deltas), len(deltas)
}
