package report

import (
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/waza-isolate/waza/evidence"
)

// VerdictView is a grader's verdict as it is shown.
type VerdictView struct {
	Name, Type    string
	Result        evidence.VerdictResult
	Score, Weight float64
	Feedback      []Note // in pieces; those with a call lead there
	Calls         []int  // that it is about
	More          int    // and how many more
	Left          int64  // bytes of the feedback that are not shown
	Details       Text
}

// AttackView is what came of the trial's attack.
type AttackView struct {
	evidence.AttackVerdict
	Withheld bool
	Shown    []VerdictView
}

// CheckpointView is what a checkpoint came to.
type CheckpointView struct {
	evidence.Checkpoint
	Outcome evidence.Class
	Shown   []VerdictView
}

func (r *reading) checkpoints() (views []CheckpointView) {
	for _, c := range r.talk.Verdicts.Checkpoints {
		views = append(views, CheckpointView{c.Checkpoint, c.Class, r.verdicts(c.Verdicts.Verdicts)})
	}
	return views
}

// ReplyView is what a model did that played the agent's user.
type ReplyView struct {
	Did  string
	Text Text
}

func (r *reading) replies() (views []ReplyView, more int) {
	all := r.talk.Replies
	for _, reply := range all[:min(len(all), maxNotes)] {
		views = append(views, ReplyView{reply.Did(), r.room.show(reply.Text())})
	}
	return views, len(all) - len(views)
}

// verdicts are those that do not pass first.
func (r *reading) verdicts(all []evidence.Verdict) (views []VerdictView) {
	for _, passes := range []bool{false, true} {
		for _, v := range all {
			if (v.Result == evidence.VerdictPass) == passes {
				views = append(views, r.verdict(v))
			}
		}
	}
	return views
}

// maxChips is how many calls a verdict leads to.
const maxChips = 24

func (r *reading) verdict(v evidence.Verdict) VerdictView {
	about := aboutCalls(v)
	feedback := r.room.show(v.Feedback)
	view := VerdictView{
		Name: brief(v.Name, nameSize), Type: brief(v.Type, nameSize), Result: v.Result, Score: v.Score, Weight: v.Weight,
		Feedback: pieces(feedback.Text, about), Left: feedback.Left, Calls: about[:min(len(about), maxChips)], More: max(len(about)-maxChips, 0),
	}
	if len(v.Details) > 0 {
		if details, err := evidence.Marshal(v.Details); err == nil {
			view.Details = r.room.json(details)
		}
	}
	return view
}

// aboutCalls are the calls that a verdict's details say it is about.
func aboutCalls(v evidence.Verdict) (calls []int) {
	listed, _ := v.Details["about_calls"].([]any)
	for _, one := range listed {
		if seq, ok := one.(float64); ok && seq >= 1 {
			calls = append(calls, int(seq))
		}
	}
	return calls
}

// named is how feedback names a call. It leads there only where the verdict is about it.
var named = regexp.MustCompile(`\bcall (\d{1,9})\b`)

// pieces cuts a text at the calls that it names.
func pieces(text string, about []int) (all []Note) {
	from := 0
	for _, at := range named.FindAllStringSubmatchIndex(text, -1) {
		seq, err := strconv.Atoi(text[at[2]:at[3]])
		if err != nil || !slices.Contains(about, seq) {
			continue
		}
		all = append(all, Note{Text: text[from:at[0]]}, Note{Text: text[at[0]:at[1]], Call: seq})
		from = at[1]
	}
	return append(all, Note{Text: text[from:]})
}

// attack is nil where there was none.
func (r *reading) attack() *AttackView {
	attack, v := r.talk.Trial.Attack, r.talk.Verdicts.Attack
	switch {
	case attack == nil:
		return nil
	case v == nil:
		return &AttackView{AttackVerdict: evidence.AttackVerdict{Goal: brief(attack.Goal, noteSize)}, Withheld: attack.Withheld}
	}
	view := &AttackView{AttackVerdict: *v, Shown: r.verdicts(v.Verdicts)}
	view.Verdicts, view.Goal = nil, brief(v.Goal, noteSize)
	if len(view.Shown) > 0 {
		view.Reasons = undelivered(view.Reasons, v.Verdicts)
	}
	view.Reasons = briefs(view.Reasons)
	return view
}

// undelivered are the reasons that no verdict tells.
func undelivered(reasons []string, verdicts []evidence.Verdict) (others []string) {
	for _, reason := range reasons {
		if !slices.ContainsFunc(verdicts, func(v evidence.Verdict) bool { return strings.HasPrefix(reason, v.Name+" (") }) {
			others = append(others, reason)
		}
	}
	return others
}

// attackedMark is attackEnd where nothing beside says what it is of.
func attackedMark(end evidence.AttackEnd) Mark {
	m := attackEnd(end)
	m.Word = "attack " + m.Word
	return m
}

// attackEnd marks what came of an attack: that one succeeded is what is bad.
func attackEnd(end evidence.AttackEnd) Mark {
	word := strings.ReplaceAll(string(end), "_", " ")
	switch end {
	case evidence.AttackSucceeded:
		return Mark{"broke", word, "fail"}
	case evidence.AttackResisted:
		return Mark{"pass", word, "pass"}
	case evidence.AttackNotDelivered:
		return Mark{"none", word, "infra"}
	}
	return Mark{"error", word, "warn"}
}
