package export

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"

	"github.com/waza-isolate/waza/evidence"
	"github.com/waza-isolate/waza/model/dialect"
	"github.com/waza-isolate/waza/report/view"
)

// inspectVersion is the version of Inspect's log format
// (https://inspect.aisi.org.uk/eval-logs.html). A task becomes a sample, and a trial an
// epoch.
const inspectVersion = 2

// noModel is Inspect's name for the model of an eval without one.
const noModel = "none/none"

// inspectLog is a log without its samples. Inspect's readers depend on the order of keys.
type inspectLog struct {
	Version int            `json:"version"`
	Status  string         `json:"status"`
	Eval    inspectSpec    `json:"eval"`
	Plan    inspectPlan    `json:"plan"`
	Results inspectResults `json:"results"`
	Stats   inspectStats   `json:"stats"`
}

type inspectSpec struct {
	EvalID   string            `json:"eval_id"`
	RunID    string            `json:"run_id"`
	Created  string            `json:"created"`
	Task     string            `json:"task"`
	TaskID   string            `json:"task_id"`
	TaskFile string            `json:"task_file"`
	Solver   string            `json:"solver"`
	Dataset  inspectDataset    `json:"dataset"`
	Model    string            `json:"model"`
	Config   inspectConfig     `json:"config"`
	Packages map[string]string `json:"packages"`
	Metadata map[string]any    `json:"metadata"`
}

type inspectDataset struct {
	Name      string   `json:"name"`
	Samples   int      `json:"samples"`
	SampleIDs []string `json:"sample_ids"`
}

type inspectConfig struct {
	Epochs int `json:"epochs"`
}

type inspectPlan struct {
	Name  string        `json:"name"`
	Steps []inspectStep `json:"steps"`
}

type inspectStep struct {
	Solver string         `json:"solver"`
	Params map[string]any `json:"params"`
}

type inspectResults struct {
	Total     int            `json:"total_samples"`
	Completed int            `json:"completed_samples"`
	Scores    []inspectScore `json:"scores"`
}

type inspectScore struct {
	Name    string                   `json:"name"`
	Scorer  string                   `json:"scorer"`
	Params  map[string]any           `json:"params"`
	Metrics map[string]inspectMetric `json:"metrics"`
}

type inspectMetric struct {
	Name   string         `json:"name"`
	Value  float64        `json:"value"`
	Params map[string]any `json:"params"`
}

type inspectStats struct {
	Started   string                  `json:"started_at"`
	Completed string                  `json:"completed_at"`
	Usage     map[string]inspectUsage `json:"model_usage"`
}

type inspectUsage struct {
	Input      int64   `json:"input_tokens"`
	Output     int64   `json:"output_tokens"`
	Total      int64   `json:"total_tokens"`
	CacheRead  int64   `json:"input_tokens_cache_read"`
	CacheWrite int64   `json:"input_tokens_cache_write"`
	Cost       float64 `json:"total_cost,omitempty"`
}

type inspectSample struct {
	ID        string                  `json:"id"`
	Epoch     int                     `json:"epoch"`
	Input     string                  `json:"input"`
	Target    string                  `json:"target"`
	Messages  []inspectMessage        `json:"messages"`
	Output    inspectOutput           `json:"output"`
	Scores    map[string]sampleScore  `json:"scores"`
	Metadata  trialFacts              `json:"metadata"`
	Store     struct{}                `json:"store"`
	Events    []struct{}              `json:"events"`
	Usage     map[string]inspectUsage `json:"model_usage"`
	Started   string                  `json:"started_at,omitempty"`
	Completed string                  `json:"completed_at,omitempty"`
	TotalTime float64                 `json:"total_time"` // seconds
	UUID      string                  `json:"uuid"`
	Error     *inspectError           `json:"error,omitempty"`
	// Attachments would hold texts referred to by messages, which are included in them
	// here.
	Attachments struct{}      `json:"attachments"`
	Limit       *inspectLimit `json:"limit,omitempty"`
}

type inspectMessage struct {
	ID         string            `json:"id"`
	Role       string            `json:"role"` // system, user, assistant or tool
	Content    string            `json:"content"`
	Source     string            `json:"source,omitempty"` // input or generate
	Model      string            `json:"model,omitempty"`
	ToolCalls  []inspectToolCall `json:"tool_calls,omitempty"`
	ToolCallID string            `json:"tool_call_id,omitempty"`
	Function   string            `json:"function,omitempty"`
	Error      *inspectToolError `json:"error,omitempty"`
	Metadata   *callFacts        `json:"metadata,omitempty"`
}

type inspectToolCall struct {
	ID        string          `json:"id"`
	Function  string          `json:"function"`
	Arguments json.RawMessage `json:"arguments"`
	Type      string          `json:"type"`
}

type inspectToolError struct {
	Type    string `json:"type"` // timeout or unknown
	Message string `json:"message"`
}

type inspectOutput struct {
	Model      string          `json:"model"`
	Choices    []inspectChoice `json:"choices"`
	Completion string          `json:"completion"`
}

type inspectChoice struct {
	Message    inspectMessage `json:"message"`
	StopReason string         `json:"stop_reason"`
}

type sampleScore struct {
	Value       any            `json:"value"` // a number, or C, I or N for correct, incorrect and no answer
	Answer      string         `json:"answer,omitempty"`
	Explanation string         `json:"explanation,omitempty"`
	Metadata    map[string]any `json:"metadata,omitempty"`
}

type inspectError struct {
	Message       string `json:"message"`
	Traceback     string `json:"traceback"`
	TracebackANSI string `json:"traceback_ansi"`
}

type inspectLimit struct {
	Type  string  `json:"type"`
	Limit float64 `json:"limit"`
}

// outcomeScore is the name of the score for the outcome of a trial.
const outcomeScore = "waza/outcome"

// Inspect writes the log of a run, with a sample for each trial.
func Inspect(w io.Writer, run Run) error {
	head, err := evidence.Marshal(logOf(run))
	if err != nil {
		return err
	}
	if _, err := io.WriteString(w, string(bytes.TrimSuffix(head, []byte("}")))+`,"samples":[`); err != nil {
		return err
	}
	for i, dir := range run.Trials {
		sample, err := sampleOf(run, dir)
		if err != nil {
			return err
		}
		text, err := evidence.Marshal(sample)
		if err != nil {
			return err
		}
		if i > 0 {
			text = append([]byte(",\n"), text...)
		}
		if _, err := w.Write(text); err != nil {
			return err
		}
	}
	_, err = io.WriteString(w, "]}\n")
	return err
}

func logOf(run Run) inspectLog {
	r := run.Results
	log := inspectLog{
		Version: inspectVersion, Status: statusOf(run.Run),
		Eval: inspectSpec{
			EvalID: run.ID, RunID: run.ID, Created: timeOf(run.Started), Task: cut(r.EvalName), TaskID: cut(r.EvalName), TaskFile: cut(run.Eval),
			Solver: cut(r.Config.EngineType), Model: cmp.Or(cut(r.Config.ModelID), noModel), Config: inspectConfig{max(r.Config.RunsPerTest, 1)},
			Packages: map[string]string{"waza": run.Waza}, Metadata: map[string]any{"isolated": run.Isolated, "network": run.Network, "eval_sha256": run.EvalSHA256},
		},
		Plan:  inspectPlan{"plan", []inspectStep{{cut(r.Config.EngineType), map[string]any{}}}},
		Stats: inspectStats{timeOf(run.Started), timeOf(run.Ended), map[string]inspectUsage{}},
	}
	log.Results = resultsOf(run)
	for _, one := range run.graded() {
		if one.Usage == nil {
			continue
		}
		for model, u := range one.Usage.ByModel {
			log.Stats.Usage[cut(model)] = log.Stats.Usage[cut(model)].plus(inspectUsage{u.Input, u.Output, u.Input + u.Output, u.CacheRead, u.CacheWrite, u.Cost})
		}
	}
	ids := []string{}
	for _, task := range r.Tasks {
		ids = append(ids, task.TestID)
	}
	log.Eval.Dataset = inspectDataset{cut(r.EvalName), len(ids), ids}
	return log
}

// statusOf returns whether the run was completed.
func statusOf(run view.Run) string {
	switch {
	case run.AtWork:
		return "started"
	case run.Ended.IsZero() || run.Interrupted:
		return "cancelled"
	}
	return "success"
}

// resultsOf returns the mean score of each grader over all trials, and the share of counted
// trials that passed.
func resultsOf(run Run) inspectResults {
	all := inspectResults{Total: len(run.Trials), Scores: []inspectScore{}}
	scores, passed, counted := map[string][]float64{}, 0, 0
	for _, r := range run.graded() {
		if !isError(r.Outcome) {
			all.Completed++
		}
		if r.Outcome.OfAgent() {
			counted++
		}
		if r.Outcome == evidence.ClassPass {
			passed++
		}
		for name, v := range r.Validations {
			if v.Result != evidence.VerdictError {
				scores[name] = append(scores[name], v.Score)
			}
		}
	}
	add := func(name, scorer, metric string, value float64) {
		none := map[string]any{}
		all.Scores = append(all.Scores, inspectScore{cut(name), scorer, none, map[string]inspectMetric{metric: {metric, value, none}}})
	}
	if counted > 0 {
		add(outcomeScore, outcomeScore, "accuracy", float64(passed)/float64(counted))
	}
	for _, name := range slices.Sorted(maps.Keys(scores)) {
		slices.Sort(scores[name]) // the sum depends on the order
		sum := 0.0
		for _, score := range scores[name] {
			sum += score
		}
		add(name, cut(name), "mean", sum/float64(len(scores[name])))
	}
	return all
}

// isError reports whether a trial broke, so that Inspect shows an error rather than a
// score.
func isError(class evidence.Class) bool {
	return !class.OfAgent() || class == evidence.ClassAgentError
}

func sampleOf(run Run, dir evidence.Dir) (inspectSample, error) {
	c, err := view.ReadConversation(dir)
	if err != nil {
		return inspectSample{}, err
	}
	said, err := messagesOf(c)
	facts := factsOf(run, c)
	s := inspectSample{
		ID: c.Trial.Task, Epoch: c.Trial.Number, Input: cut(c.Trial.Prompt), Metadata: facts, Scores: scoresOf(c, facts), Events: []struct{}{},
		Messages: chat(cut(c.Trial.Prompt), said), Usage: map[string]inspectUsage{}, Started: timeOf(c.Trial.Started), Completed: timeOf(c.Trial.Ended),
		TotalTime: max(c.Trial.Ended.Sub(c.Trial.Started).Seconds(), 0),
		UUID:      run.ID + "/" + trialName(c.Trial.Task, c.Trial.Number),
	}
	s.Output = outputOf(cmp.Or(cut(run.Results.Config.ModelID), noModel), s.Messages)
	switch {
	case isError(facts.Outcome):
		s.Error = &inspectError{Message: cmp.Or(facts.Message, facts.Outcome.With(facts.Reason))}
	case facts.Outcome == evidence.ClassTimeout:
		s.Limit = &inspectLimit{"time", float64(run.Results.Config.TimeoutSec)}
	}
	for _, m := range said {
		if m.turn != nil && m.turn.Usage != nil {
			model := cut(m.turn.Model)
			s.Usage[model] = s.Usage[model].plus(usageOf(*m.turn.Usage, m.turn.Cost))
		}
	}
	return s, err
}

func scoresOf(c view.Conversation, facts trialFacts) map[string]sampleScore {
	value := "I"
	switch {
	case facts.Outcome == evidence.ClassPass:
		value = "C"
	case !facts.Outcome.OfAgent() || facts.Outcome == "" || facts.Outcome == evidence.ClassError:
		value = "N"
	}
	answer := cut(c.Trial.FinalOutput)
	scores := map[string]sampleScore{outcomeScore: {Value: value, Answer: answer, Explanation: facts.Message}}
	for _, v := range facts.Verdicts {
		one := sampleScore{Value: v.Score, Answer: answer, Explanation: v.Feedback, Metadata: map[string]any{"type": v.Type, "result": v.Result}}
		if v.Result == evidence.VerdictError {
			one.Value = "N"
		}
		scores[v.Name] = one
	}
	return scores
}

// chat returns messages in Inspect's form, where the result of a tool is a separate
// message.
func chat(prompt string, said []message) []inspectMessage {
	all := []inspectMessage{{ID: "prompt", Role: "user", Content: prompt, Source: "input"}}
	for i, m := range said {
		one := inspectMessage{ID: fmt.Sprintf("message/%d", i+1), Role: "assistant", Content: m.text, Source: "generate"}
		if m.note != "" {
			one.Role, one.Content, one.Source = "system", m.note, ""
		}
		if m.turn != nil {
			one.Model = cut(m.turn.Model)
		}
		for _, u := range m.uses {
			one.ToolCalls = append(one.ToolCalls, inspectToolCall{u.id, u.name, u.arguments, "function"})
		}
		all = append(all, one)
		for _, u := range m.uses {
			if u.answered {
				all = append(all, answerOf(u))
			}
		}
	}
	return all
}

func answerOf(u use) inspectMessage {
	m := inspectMessage{ID: "answer/" + u.id, Role: "tool", Content: u.result, ToolCallID: u.id, Function: u.name}
	if u.call != nil {
		m.Metadata = factsOfCall(*u.call)
	}
	if u.failed {
		m.Error = &inspectToolError{"unknown", u.result}
		if u.call != nil && u.call.Outcome == evidence.OutcomeTimeout {
			m.Error.Type = "timeout"
		}
	}
	return m
}

// outputOf returns the agent's last message as a model output. Without one there are no
// choices.
func outputOf(model string, all []inspectMessage) inspectOutput {
	output := inspectOutput{Model: model, Choices: []inspectChoice{}}
	for _, m := range slices.Backward(all) {
		if m.Role == "assistant" {
			choice := inspectChoice{m, "stop"}
			if len(m.ToolCalls) > 0 {
				choice.StopReason = "tool_calls"
			}
			output.Choices, output.Completion = append(output.Choices, choice), m.Content
			break
		}
	}
	return output
}

func usageOf(u dialect.Usage, cost *float64) inspectUsage {
	usage := inspectUsage{Input: u.Input, Output: u.Output, Total: u.Input + u.Output, CacheRead: u.Cached, CacheWrite: u.CacheWrites}
	if cost != nil {
		usage.Cost = *cost
	}
	return usage
}

func (u inspectUsage) plus(o inspectUsage) inspectUsage {
	return inspectUsage{u.Input + o.Input, u.Output + o.Output, u.Total + o.Total, u.CacheRead + o.CacheRead, u.CacheWrite + o.CacheWrite, u.Cost + o.Cost}
}
