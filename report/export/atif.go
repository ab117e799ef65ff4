package export

import (
	"encoding/json"
	"io"

	"github.com/waza-isolate/waza/evidence"
	"github.com/waza-isolate/waza/report/view"
)

func init() { add(Format{Name: "atif", Write: ATIF}) }

// atifVersion is the version of the Agent Trajectory Interchange Format
// (https://www.harborframework.com/docs/agents/trajectory-format).
const atifVersion = "ATIF-v1.7"

type trajectory struct {
	SchemaVersion string           `json:"schema_version"`
	SessionID     string           `json:"session_id"`
	TrajectoryID  string           `json:"trajectory_id"`
	Agent         trajectoryAgent  `json:"agent"`
	Steps         []trajectoryStep `json:"steps"`
	FinalMetrics  totals           `json:"final_metrics"`
	Extra         trialFacts       `json:"extra"`
}

type trajectoryAgent struct {
	Name      string `json:"name"`
	Version   string `json:"version"`
	ModelName string `json:"model_name,omitempty"`
}

type trajectoryStep struct {
	StepID       int          `json:"step_id"` // from 1
	Timestamp    string       `json:"timestamp,omitempty"`
	Source       string       `json:"source"` // system, user or agent
	ModelName    string       `json:"model_name,omitempty"`
	Message      string       `json:"message"`
	ToolCalls    []toolCall   `json:"tool_calls,omitempty"`
	Observation  *observation `json:"observation,omitempty"`
	Metrics      *metrics     `json:"metrics,omitempty"`
	LLMCallCount *int         `json:"llm_call_count,omitempty"` // 0 for steps that no model asked for
}

type toolCall struct {
	ID        string          `json:"tool_call_id"`
	Function  string          `json:"function_name"`
	Arguments json.RawMessage `json:"arguments"`
	Extra     *callFacts      `json:"extra,omitempty"`
}

// callFacts describes a call on the wire.
type callFacts struct {
	Server     string           `json:"server"`
	Tool       string           `json:"tool"`
	Call       int              `json:"call"` // number in calls.jsonl
	Outcome    evidence.Outcome `json:"outcome"`
	Origin     evidence.Origin  `json:"origin,omitempty"`
	DurationMS int64            `json:"duration_ms"`
}

type observation struct {
	Results []observed `json:"results"`
}

type observed struct {
	SourceCallID string `json:"source_call_id"`
	Content      string `json:"content"`
}

type metrics struct {
	PromptTokens     *int64   `json:"prompt_tokens,omitempty"`
	CompletionTokens *int64   `json:"completion_tokens,omitempty"`
	CachedTokens     *int64   `json:"cached_tokens,omitempty"`
	CostUSD          *float64 `json:"cost_usd,omitempty"`
}

type totals struct {
	PromptTokens     *int64   `json:"total_prompt_tokens,omitempty"`
	CompletionTokens *int64   `json:"total_completion_tokens,omitempty"`
	CachedTokens     *int64   `json:"total_cached_tokens,omitempty"`
	CostUSD          *float64 `json:"total_cost_usd,omitempty"`
	Steps            int      `json:"total_steps"`
}

// trialFacts holds facts for which the format has no key: how the trial ended, and why.
type trialFacts struct {
	Task     string                 `json:"task"`
	Trial    int                    `json:"trial"`
	Attempt  int                    `json:"attempt"`
	Outcome  evidence.Class         `json:"outcome,omitempty"`
	Reason   evidence.Reason        `json:"reason,omitempty"`
	Message  string                 `json:"message,omitempty"`
	Score    float64                `json:"score"`
	Verdicts []verdict              `json:"verdicts,omitempty"`
	Attack   evidence.AttackOutcome `json:"attack,omitempty"`
	Gaps     []string               `json:"gaps,omitempty"` // missing evidence, and why
	Isolated bool                   `json:"isolated"`
	Waza     string                 `json:"waza"` // waza's version
}

type verdict struct {
	Name     string                 `json:"name"`
	Type     string                 `json:"type"`
	Result   evidence.VerdictResult `json:"result"`
	Score    float64                `json:"score"`
	Feedback string                 `json:"feedback"`
}

// ATIF writes a trajectory of each trial, one per line.
func ATIF(w io.Writer, run Run) error {
	for _, dir := range run.Trials {
		c, err := view.ReadConversation(dir)
		if err != nil {
			return err
		}
		said, err := messagesOf(c)
		if err != nil {
			return err
		}
		line, err := evidence.Marshal(trajectoryOf(run, c, said))
		if err != nil {
			return err
		}
		if _, err := w.Write(append(line, '\n')); err != nil {
			return err
		}
	}
	return nil
}

func trajectoryOf(run Run, c view.Conversation, said []message) trajectory {
	id := run.ID + "/" + c.Trial.ID().String()
	t := trajectory{
		SchemaVersion: atifVersion, SessionID: id, TrajectoryID: id,
		Agent: trajectoryAgent{cut(c.Trial.Executor), "unknown", cut(run.Results.Config.ModelID)},
		Steps: []trajectoryStep{{Timestamp: timeOf(c.Trial.AgentStart), Source: "user", Message: cut(c.Trial.Prompt)}},
		Extra: factsOf(run, c),
	}
	for _, m := range said {
		t.Steps = append(t.Steps, stepOf(m))
		if m.turn != nil {
			t.FinalMetrics.add(m.turn.ModelCall)
		}
	}
	for i := range t.Steps {
		t.Steps[i].StepID = i + 1
	}
	t.FinalMetrics.Steps = len(t.Steps)
	return t
}

func stepOf(m message) trajectoryStep {
	if m.note != "" {
		return trajectoryStep{Source: "system", Message: m.note}
	}
	step := trajectoryStep{Timestamp: timeOf(m.at), Source: "agent", Message: m.text}
	if m.turn != nil {
		step.ModelName, step.LLMCallCount = cut(m.turn.Model), new(1)
		if usage := m.turn.Usage; usage != nil {
			step.Metrics = &metrics{&usage.Input, &usage.Output, &usage.Cached, m.turn.Cost}
		}
	}
	var results []observed
	for _, u := range m.uses {
		call := toolCall{ID: u.id, Function: u.name, Arguments: u.arguments}
		if u.call != nil {
			call.Extra = factsOfCall(*u.call)
			if m.turn == nil && u.call.Origin == evidence.OriginOutOfBand {
				step.LLMCallCount = new(0)
			}
		}
		step.ToolCalls = append(step.ToolCalls, call)
		if u.answered {
			results = append(results, observed{u.id, u.result})
		}
	}
	if len(results) > 0 {
		step.Observation = &observation{results}
	}
	return step
}

func factsOfCall(call evidence.Call) *callFacts {
	facts := &callFacts{Server: cut(call.Server), Tool: cut(call.Tool), Call: call.Seq, Outcome: call.Outcome, Origin: call.Origin}
	if !call.End.IsZero() {
		facts.DurationMS = call.End.Sub(call.Start).Milliseconds()
	}
	return facts
}

func factsOf(run Run, c view.Conversation) trialFacts {
	facts := trialFacts{
		Task: c.Trial.Task, Trial: c.Trial.Number, Attempt: c.Trial.Attempt, Score: c.Verdicts.Score,
		Isolated: run.Isolated, Waza: run.Waza,
	}
	var message string
	facts.Outcome, facts.Reason, message = c.Trial.Outcome(c.Verdicts)
	facts.Message = cut(message)
	for _, gap := range c.Gaps {
		facts.Gaps = append(facts.Gaps, cut(gap))
	}
	for _, v := range c.Verdicts.Verdicts {
		facts.Verdicts = append(facts.Verdicts, verdict{cut(v.Name), v.Type, v.Result, v.Score, cut(v.Feedback)})
	}
	if a := c.Verdicts.Attack; a != nil {
		facts.Attack = a.Result
	}
	return facts
}

// add adds the usage of a model's response. A total without any known part stays nil.
func (t *totals) add(call evidence.ModelCall) {
	sum := func(to **int64, n int64) {
		if *to == nil {
			*to = new(int64)
		}
		**to += n
	}
	if u := call.Usage; u != nil {
		sum(&t.PromptTokens, u.Input)
		sum(&t.CompletionTokens, u.Output)
		sum(&t.CachedTokens, u.Cached)
	}
	if call.Cost != nil {
		if t.CostUSD == nil {
			t.CostUSD = new(float64)
		}
		*t.CostUSD += *call.Cost
	}
}
