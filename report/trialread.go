package report

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"time"

	"github.com/waza-isolate/waza/evidence"
	"github.com/waza-isolate/waza/report/conversation"
	"github.com/waza-isolate/waza/report/view"
	"github.com/waza-isolate/waza/results"
)

// Sources of steps that are no server.
const (
	sourceModel = "model"
	sourceAgent = "agent"
	sourceEvent = "event"
)

// reading is a trial while it is read.
type reading struct {
	dir      evidence.Dir
	most     Bounds
	talk     conversation.Conversation
	calls    []*evidence.Call
	related  map[int][]conversation.Relation // by call
	frames   frames
	sources  map[string]Source // by servers' names
	from, to time.Time         // the agent's, or the trial's where it never ran
	room     budget
	gaps     []string
}

// ReadTrial reads what is shown of a trial that has ended. It holds no more than one
// trial's evidence.
func ReadTrial(dir evidence.Dir, most Bounds) (Trial, error) {
	crossed := frames{left: most.Total, texts: map[int][]string{}}
	talk, err := conversation.Read(dir, crossed.add)
	if err != nil {
		return Trial{}, err
	}
	r := &reading{
		dir: dir, most: most, talk: talk, related: talk.Relations(), frames: crossed, gaps: talk.Gaps,
		room: budget{most.Text, most.Total}, sources: map[string]Source{},
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

// span is the time that is shown.
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

// note keeps what cannot be read. What is not there is nothing to read.
func (r *reading) note(err error) {
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		r.gaps = append(r.gaps, err.Error())
	}
}

// trial puts the page together. The room for texts goes first to what is said of the
// trial, then to what failed, and then to the rest in its order.
func (r *reading) trial() (Trial, error) {
	earlier, err := r.dir.Earlier()
	r.note(err)
	judged := r.talk.Verdicts
	judged.Class, judged.Reason, judged.Message = r.talk.Trial.Outcome(judged)
	t := Trial{
		Trial: r.talk.Trial, Earlier: attempts(earlier), Score: judged.Score, Outcome: judged.Class,
		PromptText: r.room.show(r.talk.Trial.Prompt), Output: r.room.show(r.talk.Trial.FinalOutput),
	}
	t.Previous, t.Next = siblings(r.dir, t.Number)
	t.Verdicts, t.Attack = r.verdicts(judged.Verdicts), r.attack()
	t.Reached = r.checkpoints()
	t.Replies, t.MoreReplies = r.replies()
	t.Why = brief(cmp.Or(view.WhyOf(results.Graded(judged)).Line(), judged.Message, untold(judged.Class, len(judged.Verdicts))), noteSize)
	t.Figures = r.figures()
	t.Timeline = r.timeline()
	logs, workspace := r.room.part(8), r.room.part(4)
	t.Logs = r.logs(logs)
	t.Workspace = r.workspace(workspace)
	t.Rows, t.Unshown = r.rows()
	t.Sources = r.sourcesOf(t.Rows)
	t.Gaps = briefs(r.gaps)
	t.Told = briefs(r.talk.Told)
	// What was read of it is in the page's own words now.
	t.TaskName, t.Executor, t.Signal = brief(t.TaskName, nameSize), brief(t.Executor, nameSize), brief(t.Signal, nameSize)
	if user := t.Responder; user != nil {
		t.Responder = &evidence.Responder{FollowupsSent: user.FollowupsSent, Outcome: brief(strings.ReplaceAll(user.Outcome, "_", " "), nameSize)}
	}
	t.Trial.Prompt, t.Trial.FinalOutput, t.Trial.Message, t.Trial.Plan = "", "", "", nil
	return t, nil
}

// attempts are earlier ones, of which the reason is shown.
func attempts(earlier []evidence.Trial) (shown []evidence.Trial) {
	for _, t := range earlier[:min(len(earlier), maxNotes)] {
		shown = append(shown, evidence.Trial{Attempt: t.Attempt, Class: t.Class, Reason: t.Reason, Message: brief(t.Message, noteSize)})
	}
	return shown
}

// briefs are sentences, as many as a page has room for.
func briefs(sentences []string) (shown []string) {
	for _, sentence := range sentences[:min(len(sentences), maxNotes)] {
		shown = append(shown, brief(sentence, noteSize))
	}
	return shown
}

// untold says in a sentence how a trial ended of which nothing else is said.
func untold(outcome evidence.Class, graders int) string {
	switch {
	case outcome == evidence.ClassPass && graders == 1:
		return "Its one grader passes it."
	case outcome == evidence.ClassPass && graders > 1:
		return fmt.Sprintf("All %d graders pass it.", graders)
	case outcome == "":
		return "It has not been graded."
	}
	return ""
}
