package report

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/waza-isolate/waza/evidence"
	"github.com/waza-isolate/waza/report/view"
	"github.com/waza-isolate/waza/results"
)

// Sources of steps other than servers.
const (
	sourceModel = "model"
	sourceAgent = "agent"
	sourceEvent = "event"
)

// reading is a trial being read.
type reading struct {
	course
	dir     evidence.Dir
	most    Bounds
	remarks map[int][]view.Remark // by call
	frames  frames
	room    budget
	gaps    []string
}

// course is the course of a trial.
type course struct {
	talk     view.Conversation
	calls    []*evidence.Call
	sources  map[string]Source // by server name
	from, to time.Time         // of the agent, or of the trial if the agent never ran
}

// ReadTrial reads the view of a trial that has ended. It holds no more than one trial's
// evidence.
func ReadTrial(dir evidence.Dir, most Bounds) (Trial, error) {
	talk, err := view.ReadConversation(dir)
	if err != nil {
		return Trial{}, err
	}
	r := &reading{
		course: course{talk: talk, sources: map[string]Source{}},
		dir:    dir, most: most, remarks: talk.Remarks(), gaps: talk.Gaps, room: budget{most.Text, most.Total, most.Laid},
	}
	for i, server := range talk.Trial.Servers {
		r.sources[server.Name] = Source{Key: fmt.Sprint("server-", i), Lane: fmt.Sprint("s", i%lanes), Name: brief(server.Name, nameSize)}
	}
	for _, step := range talk.Steps {
		if step.Call != nil {
			r.calls = append(r.calls, step.Call)
		}
	}
	r.from, r.to = span(talk.Trial, r.calls)
	return r.trial()
}

// span returns the start and end of the time to show.
func span(t evidence.Trial, calls []*evidence.Call) (from, to time.Time) {
	from, to = t.AgentStart, t.AgentEnd
	if from.IsZero() {
		from = t.Started
	}
	if to.IsZero() {
		to = t.Ended
	}
	for _, call := range calls {
		if call.End.After(to) {
			to = call.End
		}
	}
	return from, to
}

// note records an error of reading, once. A missing file is not an error.
func (r *reading) note(err error) {
	if err != nil && !errors.Is(err, fs.ErrNotExist) && !slices.Contains(r.gaps, err.Error()) {
		r.gaps = append(r.gaps, err.Error())
	}
}

// trial builds the view. Space for texts is given first to texts about the trial, then to
// failures, and then to the rest in order.
func (r *reading) trial() (Trial, error) {
	earlier, err := r.dir.Earlier()
	r.note(err)
	judged := r.talk.Verdicts
	judged.Class, judged.Reason, judged.Message = r.talk.Trial.Outcome(judged)
	t := Trial{
		Trial: r.talk.Trial, Earlier: attempts(earlier), Score: judged.Score, Outcome: judged.Class,
		PromptText: r.room.markdown(r.talk.Trial.Prompt), Output: r.room.markdown(r.talk.Trial.FinalOutput),
	}
	t.Mark = outcomeOf(judged.Class)
	t.Mark.Word = view.EndedAs(judged.Class, judged.Reason)
	t.Previous, t.Next = siblings(r.dir, t.Number)
	t.Verdicts, t.Attack = r.verdicts(judged.Verdicts), r.attack()
	t.Reached = r.checkpoints()
	t.Replies, t.MoreReplies = r.replies()
	t.Why = brief(cmp.Or(view.WhyOf(results.Graded(judged)).Line(), judged.Message, outcomeSentence(judged.Class, len(judged.Verdicts))), noteSize)
	t.Figures = r.figures()
	t.Setup = r.room.show(setupOf(r.talk.Trial))
	t.Timeline = r.timeline()
	logs, workspace := r.room.part(8), r.room.part(4)
	t.Logs, err = logsOf(r.dir, r.talk.Trial.Servers, logs)
	r.note(err)
	t.Workspace, err = workspaceOf(r.dir, workspace)
	r.note(err)
	r.room.total += logs.total + workspace.total
	t.Window = r.most.Window
	t.Rows, t.Before, t.Unshown = r.rows()
	t.Sources = r.sourcesOf(t.Rows)
	t.Gaps = briefs(r.gaps)
	t.Contradicted = briefs(r.talk.Contradicted)
	// From here on, the page has its own copies of the texts that it needs.
	t.TaskName, t.Executor, t.Signal = brief(t.TaskName, nameSize), brief(t.Executor, nameSize), brief(t.Signal, nameSize)
	if user := t.Responder; user != nil {
		t.Responder = &evidence.Responder{FollowupsSent: user.FollowupsSent, Outcome: brief(strings.ReplaceAll(user.Outcome, "_", " "), nameSize)}
	}
	t.Trial.Prompt, t.Trial.FinalOutput, t.Trial.Message, t.Trial.Plan = "", "", "", nil
	return t, nil
}

// attempts returns what is shown of earlier attempts.
func attempts(earlier []evidence.Trial) (shown []evidence.Trial) {
	for _, t := range earlier[:min(len(earlier), maxNotes)] {
		shown = append(shown, evidence.Trial{Attempt: t.Attempt, Class: t.Class, Reason: t.Reason, Message: brief(t.Message, noteSize)})
	}
	return shown
}

// briefs returns the first sentences, shortened.
func briefs(sentences []string) (shown []string) {
	for _, sentence := range sentences[:min(len(sentences), maxNotes)] {
		shown = append(shown, brief(sentence, noteSize))
	}
	return shown
}

// outcomeSentence describes the outcome of a trial that has no other explanation.
func outcomeSentence(outcome evidence.Class, graders int) string {
	switch {
	case outcome == evidence.ClassPass && graders == 1:
		return "Its grader passes it."
	case outcome == evidence.ClassPass && graders > 1:
		return fmt.Sprintf("All %d graders pass it.", graders)
	case outcome == "":
		return "It has not been graded."
	}
	return ""
}

// VerdictView is the view of a grader's verdict.
type VerdictView struct {
	Name, Type    string
	Result        evidence.VerdictResult
	Mark          Mark // of the verdict's result
	Score, Weight float64
	Feedback      []Note // in pieces; those that name a call are links
	Calls         []int  // numbers of the calls that the verdict is about
	More          int    // number of further calls
	Left          int64  // bytes of the feedback not shown
	Checks        []CheckView
	Parts         string // of the score, if it has parts
	Details       Text
}

// CheckView is the view of one check of a verdict. Got links to calls like feedback.
type CheckView struct {
	evidence.Check
	Got []Note
}

// AttackView is the view of the result of the attack.
type AttackView struct {
	evidence.AttackVerdict
	Withheld bool
	Shown    []VerdictView
}

// CheckpointView is the view of a checkpoint.
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

// ReplyView is the view of a reply of the simulated user.
type ReplyView struct {
	Did  string
	Text Text
}

func (r *reading) replies() (views []ReplyView, more int) {
	all := r.talk.Replies
	for _, reply := range all[:min(len(all), maxNotes)] {
		views = append(views, ReplyView{reply.Did(), r.room.markdown(reply.Text())})
	}
	return views, len(all) - len(views)
}

// verdicts returns the views of verdicts. Verdicts that are not passes come first, starting with the most
// informative.
func (r *reading) verdicts(all []evidence.Verdict) (views []VerdictView) {
	all = slices.Clone(all)
	slices.SortStableFunc(all, func(a, b evidence.Verdict) int {
		switch failed, other := a.Result != evidence.VerdictPass, b.Result != evidence.VerdictPass; {
		case failed && other:
			return view.Telling(a.Details, b.Details, a.Weight*(1-a.Score), b.Weight*(1-b.Score))
		case failed:
			return -1
		case other:
			return 1
		}
		return 0
	})
	for _, v := range all {
		views = append(views, r.verdict(v))
	}
	return views
}

// maxChips is the maximum number of calls linked from a verdict.
const maxChips = 24

func (r *reading) verdict(v evidence.Verdict) VerdictView {
	about := aboutCalls(v)
	feedback := r.room.show(v.Feedback)
	view := VerdictView{
		Name: brief(v.Name, nameSize), Type: brief(v.Type, nameSize), Result: v.Result, Mark: outcomeOf(v.Result), Score: v.Score, Weight: v.Weight,
		Feedback: pieces(feedback.Text, about), Left: feedback.Left, Calls: about[:min(len(about), maxChips)], More: max(len(about)-maxChips, 0),
	}
	if len(v.Details) == 0 {
		return view
	}
	view.Checks, view.Parts = r.checks(v.Details), parts(v.Details)
	rest := maps.Clone(v.Details)
	if len(view.Checks) > 0 {
		delete(rest, evidence.DetailChecks)
	}
	if details, err := evidence.Marshal(rest); err == nil && len(rest) > 0 {
		view.Details = r.room.json(string(details))
	}
	return view
}

// checks returns the checks in a verdict's details, or nil if they do not fit.
func (r *reading) checks(details map[string]any) (views []CheckView) {
	var all []evidence.Check
	if raw, err := json.Marshal(details[evidence.DetailChecks]); err != nil || json.Unmarshal(raw, &all) != nil {
		return nil // another format
	}
	for _, c := range all {
		expected, got := r.room.show(c.Expected), r.room.show(c.Got)
		if expected.Left+got.Left > 0 {
			return nil
		}
		c.Key, c.Expected = brief(c.Key, nameSize), expected.Text
		views = append(views, CheckView{c, pieces(got.Text, c.Calls)})
	}
	return views
}

// parts returns the parts of a score in a verdict's details, or "".
func parts(details map[string]any) string {
	var all []string
	parts, _ := details["parts"].(map[string]any)
	for _, name := range slices.Sorted(maps.Keys(parts)) {
		part, _ := parts[name].(map[string]any)
		score, _ := part["score"].(float64)
		weight, _ := part["weight"].(float64)
		all = append(all, fmt.Sprintf("%s %.2f × %g", brief(name, nameSize), score, weight))
	}
	return strings.Join(all, ", ")
}

// aboutCalls returns the calls that a verdict is about, according to its details.
func aboutCalls(v evidence.Verdict) (calls []int) {
	listed, _ := v.Details[evidence.DetailCalls].([]any)
	for _, one := range listed {
		if seq, ok := one.(float64); ok && seq >= 1 {
			calls = append(calls, int(seq))
		}
	}
	return calls
}

// named matches a call's number in feedback. It becomes a link only if the verdict is about
// that call.
var named = regexp.MustCompile(`\bcall (\d{1,9})\b`)

// pieces splits a text at the calls that it names.
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

// attack returns the view of the attack, or nil if there was none.
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
	for i, shown := range view.Shown {
		view.Shown[i].Mark = successMark(shown.Result)
	}
	if len(view.Shown) > 0 {
		view.Reasons = undelivered(view.Reasons, v.Verdicts)
	}
	view.Reasons = briefs(view.Reasons)
	return view
}

// undelivered returns the reasons that are not in a verdict.
func undelivered(reasons []string, verdicts []evidence.Verdict) (others []string) {
	for _, reason := range reasons {
		if !slices.ContainsFunc(verdicts, func(v evidence.Verdict) bool { return strings.HasPrefix(reason, v.Name+" (") }) {
			others = append(others, reason)
		}
	}
	return others
}

// labeledInjectionMark returns the mark of injectionMark with the word attack, for places without that
// context.
func labeledInjectionMark(end evidence.AttackOutcome) Mark {
	m := injectionMark(end)
	m.Word = "attack " + m.Word
	return m
}

// injectionMark returns the mark for the result of an attack. Success of the attack is bad.
func injectionMark(end evidence.AttackOutcome) Mark {
	signs := map[evidence.AttackOutcome]string{evidence.AttackSucceeded: "broke", evidence.AttackResisted: "pass", evidence.AttackNotDelivered: "none"}
	return Mark{cmp.Or(signs[end], "error"), strings.ReplaceAll(string(end), "_", " "), kindOf(view.StateOfAttack(end))}
}

// successMark returns the mark for the result of a success grader of an attack, which passes if the attack
// succeeded.
func successMark(result evidence.VerdictResult) Mark {
	switch result {
	case evidence.VerdictPass:
		return Mark{"broke", "happened", "fail"}
	case evidence.VerdictFail:
		return Mark{"pass", "did not happen", "pass"}
	}
	return outcomeOf(result)
}

// figures computes the figures of the trial.
func (r *course) figures() Figures {
	f := Figures{Calls: len(r.calls), Used: r.talk.Used()}
	for _, call := range r.calls {
		if call.Outcome.Failed() {
			f.Failed++
		}
	}
	for _, step := range r.talk.Steps {
		if step.Own != nil {
			f.Own++
		}
		if step.Turn == nil {
			continue
		}
		f.Turns++
		f.addModel(step.Turn)
	}
	t := r.talk.Trial
	f.Unseen = !r.talk.Gateway && f.Turns == 0 && !evidence.AsksNoModel(t.Executor)
	if !t.AgentStart.IsZero() && t.AgentEnd.After(t.AgentStart) {
		f.Agent, _ = t.AgentTime()
	}
	if t.Ended.After(t.Started) {
		f.Whole = t.Ended.Sub(t.Started)
	}
	return f
}

// maxModels is the maximum number of models listed.
const maxModels = 4

func (f *Figures) addModel(t *view.Turn) {
	model := brief(t.Model, nameSize)
	if model != "" && len(f.Models) < maxModels && !slices.Contains(f.Models, model) {
		f.Models = append(f.Models, model)
	}
}

// ending describes how the agent ended.
func ending(t evidence.Trial) string {
	switch {
	case t.Signal != "":
		return "the agent was ended by " + t.Signal
	case t.ExitCode != nil:
		return fmt.Sprintf("the agent exited with code %d", *t.ExitCode)
	}
	return "the agent ended"
}

// siblings returns the nearest previous and next trials of the same task that have ended.
func siblings(dir evidence.Dir, number int) (previous, next int) {
	task := filepath.Dir(string(dir))
	entries, err := os.ReadDir(task)
	if err != nil {
		return 0, 0
	}
	for _, entry := range entries {
		n, err := strconv.Atoi(entry.Name())
		if err != nil || n < 1 || n == number || !isTrial(filepath.Join(task, entry.Name())) {
			continue
		}
		if n < number {
			previous = max(previous, n)
		} else if next == 0 || n < next {
			next = n
		}
	}
	return previous, next
}

func isTrial(dir string) bool {
	_, err := os.Stat(filepath.Join(dir, evidence.TrialFile))
	return err == nil
}
