package view

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"time"

	"github.com/waza-isolate/waza/evidence"
	"github.com/waza-isolate/waza/evidence/capture"
	"github.com/waza-isolate/waza/grading"
	"github.com/waza-isolate/waza/internal/jsontext"
	"github.com/waza-isolate/waza/model/dialect"
)

// Conversation is the evidence of a trial in order.
type Conversation struct {
	Trial        evidence.Trial
	Verdicts     evidence.Verdicts
	Gateway      bool                // the models were called through the gateway
	Steps        []Step              // in chronological order
	Narration    *evidence.Narration // nil if there is no transcript
	Contradicted []string            // what is wrong in the agent's account of its calls
	Events       []evidence.Event    // other than calls, in chronological order; see Usual
	Printed      map[string]string   // the stderr of servers that exited by themselves, by server, unless the trial's message has it
	Replies      []Reply             // of a model that played the user
	Injected     map[int][]int       // numbers of the attack's injections in the result, by call
	Gaps         []string            // evidence that cannot be read
}

// Step is one of these: a turn of a model, a tool call on the wire, or an entry that only
// the transcript has.
type Step struct {
	Turn  *Turn
	Call  *evidence.Call
	Own   *capture.Use    // use of a builtin tool or a skill
	Claim *evidence.Claim // a call that was never made
	Said  string          // by the agent, if its models were not called through the gateway
}

// start returns the start time of a turn or a call.
func (s Step) start() time.Time {
	if s.Turn != nil {
		return s.Turn.Start
	}
	return s.Call.Start
}

// Begins returns the time at which a step begins; events before that time are shown before the step. A step
// that only the transcript has is no earlier than the agent's start.
func (c Conversation) Begins(s Step) time.Time {
	switch {
	case s.Turn != nil && !s.Turn.Start.IsZero():
		return s.Turn.Start
	case s.Call != nil && !s.Call.Start.IsZero():
		return s.Call.Start
	}
	return c.Trial.AgentStart.Add(1)
}

// Turn is a model call that requested a turn, without its bytes.
type Turn struct {
	evidence.ModelCall
	Text    string // of the response
	Problem string // the provider's error message, or why the response is incomplete
	Uses    []Use
}

// Use is a tool use requested by a model.
type Use struct {
	dialect.Use
	Call   int             // number of the call that executed it; 0 without one
	Result *dialect.Result // as given to the model; nil if it was never given
}

// Came describes the outcome of a use in a phrase; it returns "" for an ordinary result.
func (u Use) Came() string {
	switch {
	case u.Call > 0:
		return fmt.Sprintf("is call %d", u.Call)
	case u.Result == nil:
		return "was never answered"
	case u.Result.Error:
		return "was answered with an error"
	}
	return ""
}

// ReadConversation reads the evidence of a trial that has ended. Unreadable files are reported as gaps,
// except trial.json.
func ReadConversation(dir evidence.Dir) (Conversation, error) {
	trial, err := dir.Trial()
	if err != nil {
		return Conversation{}, err
	}
	c := Conversation{Trial: trial, Gateway: dir.Gateway(trial), Gaps: slices.Clone(trial.Gaps)}
	note := func(err error) {
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			c.Gaps = append(c.Gaps, err.Error())
		}
	}
	calls, err := dir.Calls()
	note(err)
	turns, err := turnsOf(dir)
	note(err)
	c.Steps = steps(turns, calls)
	c.Verdicts, err = dir.Verdicts()
	c.Verdicts = dir.Explained(trial, c.Verdicts)
	note(err)
	note(c.narrate(dir, calls))
	c.Events, err = dir.Events()
	note(err)
	c.Printed = map[string]string{}
	_, _, message := trial.Outcome(c.Verdicts)
	for _, e := range c.Events {
		if e.Kind == eventServerExit && !Usual(e) {
			c.Printed[e.Where] = dir.ServerGist(e.Where, message)
		}
	}
	c.Replies, err = replies(dir)
	note(err)
	if attack := trial.Attack; attack != nil && !attack.Withheld && len(attack.Injections) > 0 {
		note(c.readInjected(dir))
	}
	return c, nil
}

// narrate adds the entries that only the transcript has, if there is one.
func (c *Conversation) narrate(dir evidence.Dir, calls []evidence.Call) error {
	narration, err := dir.Narration()
	if err != nil {
		return err
	}
	c.Narration, c.Contradicted = &narration, capture.Describe(narration, calls)
	transcript, err := dir.Transcript()
	var messages []transcriptEntry
	if !c.Gateway {
		messages = messagesIn(transcript)
	}
	paired := capture.Pair(narration.Tools, calls, transcript)
	own, reported := transcriptEntries(paired.Uses(), narration.Unbacked, messages)
	c.Steps = insert(c.Steps, own, reported)
	return cmp.Or(err, paired.Err())
}

// turnsOf returns the turns of models, in the order of the requests.
func turnsOf(dir evidence.Dir) ([]*Turn, error) {
	var turns []*Turn
	reported := toolResults{}
	var unread error
	for call, err := range dir.ModelCalls() {
		if err != nil {
			unread = err
			break
		}
		if call.IsTurn() {
			reported.read(call)
			turns = append(turns, turnOf(call))
		}
	}
	slices.SortFunc(turns, func(a, b *Turn) int { return cmp.Compare(a.Seq, b.Seq) })
	for _, turn := range turns {
		for i := range turn.Uses {
			turn.Uses[i].Result = reported.next(turn.Uses[i].Use)
		}
	}
	return turns, unread
}

func turnOf(call evidence.ModelCall) *Turn {
	t := &Turn{ModelCall: call, Problem: call.Error}
	t.Request, t.Response = nil, nil
	if len(call.Response) == 0 {
		return t
	}
	answer, err := dialect.ReadResponse(call.Dialect, call.Status, call.ContentType, call.Response)
	if err != nil {
		t.Problem = cmp.Or(t.Problem, err.Error())
	}
	t.Text, t.Problem = answer.Text, cmp.Or(answer.Error, t.Problem)
	for _, use := range answer.Uses {
		t.Uses = append(t.Uses, Use{Use: use})
	}
	return t
}

// toolResults holds the results given to models, by the ID of the use, or by the name of the tool if uses
// have no ID.
type toolResults map[string][]dialect.Result

// read adds the results in a request. Requests repeat the conversation, so the request with the most results
// has all of them.
func (r toolResults) read(call evidence.ModelCall) {
	request, err := dialect.ReadRequest(call.Dialect, call.Path, call.Request)
	if err != nil {
		return
	}
	all := toolResults{}
	for _, item := range request.Items {
		for _, result := range item.Results {
			key := result.Key()
			all[key] = append(all[key], result)
		}
	}
	for key, some := range all {
		if len(some) > len(r[key]) {
			r[key] = some
		}
	}
}

// next returns and removes the first unused result of a use, or nil.
func (r toolResults) next(use dialect.Use) *dialect.Result {
	key := use.Key()
	if len(r[key]) == 0 {
		return nil
	}
	first := r[key][0]
	r[key] = r[key][1:]
	return &first
}

// steps sorts turns and calls, and assigns calls to the uses that they execute.
func steps(turns []*Turn, calls []evidence.Call) (all []Step) {
	bySeq := map[int]*Turn{}
	for _, turn := range turns {
		bySeq[turn.Seq] = turn
		all = append(all, Step{Turn: turn})
	}
	for i := range calls {
		call := &calls[i]
		all = append(all, Step{Call: call})
		if turn := bySeq[call.Turn]; turn != nil && call.Origin == evidence.OriginModel {
			turn.carriedOut(call)
		}
	}
	slices.SortStableFunc(all, func(a, b Step) int { return a.start().Compare(b.start()) })
	return all
}

// carriedOut assigns a call to the first use with its ID that has no call yet. Uses without an ID are
// identified by their arguments.
func (t *Turn) carriedOut(call *evidence.Call) {
	for i := range t.Uses {
		use := &t.Uses[i]
		if use.ID == call.ToolUse && use.Call == 0 && (use.ID != "" || jsontext.Same(use.Arguments, call.Arguments)) {
			use.Call = call.Seq
			return
		}
	}
}

// Words about steps that only the agent's transcript has.
const (
	AsReported = "as the agent reports"
	NoSuccess  = "no success"           // of one of the agent's own tools
	NeverMade  = "reported, never made" // a call
)

// Ended describes how a turn ended, including its fault; it returns "" if the turn was answered without a
// fault.
func (t *Turn) Ended() string {
	var said []string
	if t.Fault != "" {
		said = append(said, "fault: "+string(t.Fault))
	}
	if t.Outcome != evidence.ModelOK {
		said = append(said, strings.ReplaceAll(t.Outcome, "_", " "))
	}
	return strings.Join(said, ", ")
}

// Tokens describes the tokens of a turn; it returns "" if they are unknown.
func (t *Turn) Tokens() string {
	if t.Usage == nil {
		return ""
	}
	return tokensText(t.Usage.Input, t.Usage.Cached, t.Usage.Output)
}

// Used is the known usage of a trial's models, as in [results.Usage] and [results.Models].
type Used struct {
	Input, Output *int64   // tokens; nil if unknown
	ByAgent       bool     // the agent reported the tokens
	Cost          *float64 // US dollars; nil if unknown
}

// Used returns the usage of the trial's models, as counted by the gateway or, without one, reported by the
// agent.
func (c Conversation) Used() (u Used) {
	if n := c.Narration; !c.Gateway && n != nil && n.Tokens != nil {
		return Used{Input: &n.Tokens.Reported.Input, Output: &n.Tokens.Reported.Output, ByAgent: true}
	}
	var tokens dialect.Usage
	cost := 0.0
	for _, step := range c.Steps {
		if t := step.Turn; t != nil && t.Usage != nil {
			tokens = tokens.Plus(*t.Usage)
			u.Input, u.Output = &tokens.Input, &tokens.Output
		}
		if t := step.Turn; t != nil && t.Cost != nil {
			cost += *t.Cost
			u.Cost = &cost
		}
	}
	return u
}

// eventServerExit is the kind of events about servers that ended.
const eventServerExit = "server_exit"

// Usual reports whether an event occurs in every trial: health checks of servers, and
// servers that end when asked to.
func Usual(e evidence.Event) bool {
	return e.Kind == "health" || e.Kind == eventServerExit && e.Data["asked"] == true
}

// StateOfEvent returns the state of an event: [Plain] if it is expected, otherwise [Doubtful] or, if it can
// decide how a trial ends, [Bad].
func StateOfEvent(e evidence.Event) State {
	expected := Usual(e)
	switch e.Kind {
	case "dns", "shared_server", "transcript_noise", "stdout_noise", evidence.EventHookCall:
		expected = true
	case EventCommand:
		_, expected = Invocation(e)
	case evidence.EventAnswer:
		expected = e.Data["unmet"] == false
	case "egress":
		expected = e.Data["allowed"] == true
	}
	if expected {
		return Plain
	}
	switch e.Kind {
	case EventCommand, evidence.EventCanary, "miss", "oom", "pids", "disk", "limit", "gap", "container_exit", "service_exit", eventServerExit:
		return Bad
	}
	return Doubtful
}

// EventWord returns the kind of an event, in words.
func EventWord(e evidence.Event) string { return strings.ReplaceAll(e.Kind, "_", " ") }

// readInjected reads which injections occur in the results of calls.
func (c *Conversation) readInjected(dir evidence.Dir) error {
	c.Injected = map[int][]int{}
	calls := c.CallsByFrame()
	for frame, err := range dir.Frames() {
		if err != nil {
			return err
		}
		for _, call := range calls[frame.Seq] {
			if len(frame.Injected) > 0 && frame.Seq == call.ResponseFrame {
				c.Injected[call.Seq] = frame.Injected
			}
		}
	}
	return nil
}

// CallsByFrame returns the calls by the numbers of their frames. A frame may belong to
// several calls.
func (c Conversation) CallsByFrame() map[int64][]*evidence.Call {
	calls := map[int64][]*evidence.Call{}
	for _, step := range c.Steps {
		if step.Call == nil {
			continue
		}
		for _, frame := range []int64{step.Call.RequestFrame, step.Call.ResponseFrame} {
			if frame > 0 {
				calls[frame] = append(calls[frame], step.Call)
			}
		}
	}
	return calls
}

// Calls returns the calls in the steps, sorted by number.
func (c Conversation) Calls() (all []evidence.Call) {
	for _, step := range c.Steps {
		if step.Call != nil {
			all = append(all, *step.Call)
		}
	}
	slices.SortFunc(all, func(a, b evidence.Call) int { return a.Seq - b.Seq })
	return all
}

// EventCommand is the kind of events about programs of command_mocks.
const EventCommand = "command"

// Invocation returns how a program of command_mocks ended, given its event. matched is
// false if the mock had no response.
func Invocation(e evidence.Event) (end string, matched bool) {
	code, _ := e.Data["exit_code"].(float64)
	if index, _ := e.Data["response_index"].(float64); index < 0 {
		return "unmatched", false
	}
	return fmt.Sprintf("exit code %.0f", code), true
}

// Reply is the reaction of a model that plays the user to what the agent said.
type Reply struct {
	grading.Reply
	Problem string // why there is no reply; empty if there is one
}

// Did describes the reaction in a few words.
func (r Reply) Did() string {
	switch {
	case r.Problem != "":
		return "no reply"
	case r.Action == grading.ActionStop:
		return "ends the conversation"
	case r.Action == grading.ActionAbstain:
		return "cannot answer"
	}
	return "replies"
}

// Text returns the reply, or the reason why there is none.
func (r Reply) Text() string {
	if r.Problem != "" {
		return r.Problem
	}
	return r.Reply.Text
}

// replies returns the replies in order.
func replies(dir evidence.Dir) (all []Reply, err error) {
	steps, err := dir.Steps()
	for _, step := range steps {
		if step.Kind == evidence.StepResponder {
			all = append(all, replyOf(step))
		}
	}
	return all, err
}

func replyOf(step evidence.Step) (r Reply) {
	var answer evidence.JudgeAnswer
	err := errors.New(step.Error)
	if step.Error == "" {
		err = json.Unmarshal(step.Answer, &answer)
	}
	if err == nil {
		r.Reply, err = grading.ReadReply(answer)
	}
	if err != nil {
		r.Problem = err.Error()
	}
	return r
}
