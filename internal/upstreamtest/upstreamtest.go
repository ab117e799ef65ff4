// Package upstreamtest reads results.json in tests like the tools of upstream waza.
// Upstream rejects the whole file if a value has a different JSON type, so a file that can
// be decoded here can be compared, graded and served there. Unknown keys are ignored.
package upstreamtest

import (
	"encoding/json"
	"testing"
	"time"
)

// Outcome is a results.json.
type Outcome struct {
	RunID     string    `json:"eval_id"`
	Skill     string    `json:"skill"`
	EvalName  string    `json:"eval_name"`
	Timestamp time.Time `json:"timestamp"`
	Config    struct {
		RunsPerTest int    `json:"runs_per_test"`
		ModelID     string `json:"model_id"`
		EngineType  string `json:"engine_type"`
		TimeoutSec  int    `json:"timeout_sec"`
		JudgeModel  string `json:"judge_model"`
	} `json:"config"`
	Summary struct {
		TotalTests     int     `json:"total_tests"`
		Succeeded      int     `json:"succeeded"`
		Failed         int     `json:"failed"`
		Errors         int     `json:"errors"`
		Skipped        int     `json:"skipped"`
		SuccessRate    float64 `json:"success_rate"`
		AggregateScore float64 `json:"aggregate_score"`
		WeightedScore  float64 `json:"weighted_score"`
		MinScore       float64 `json:"min_score"`
		MaxScore       float64 `json:"max_score"`
		StdDev         float64 `json:"std_dev"`
		DurationMS     int64   `json:"duration_ms"`
		Groups         []struct {
			Name     string  `json:"name"`
			Passed   int     `json:"passed"`
			Total    int     `json:"total"`
			AvgScore float64 `json:"avg_score"`
		} `json:"groups"`
		Usage      *Usage `json:"usage"`
		Statistics *struct {
			BootstrapCI    Interval `json:"bootstrap_ci"`
			IsSignificant  bool     `json:"is_significant"`
			NormalizedGain *float64 `json:"normalized_gain"`
		} `json:"statistics"`
	} `json:"summary"`
	Metrics map[string]struct {
		Identifier string         `json:"identifier"`
		Value      float64        `json:"value"`
		Threshold  float64        `json:"threshold"`
		Passed     bool           `json:"passed"`
		Weight     float64        `json:"weight"`
		Details    map[string]any `json:"details"`
	} `json:"metrics"`
	Tasks          []Task            `json:"tasks"`
	TriggerMetrics map[string]any    `json:"trigger_metrics"`
	TriggerResults []json.RawMessage `json:"trigger_results"`
	Metadata       map[string]any    `json:"metadata"`
	IsBaseline     bool              `json:"is_baseline"`
	Baseline       *Outcome          `json:"baseline_outcome"`
}

// Task is a task with its trials.
type Task struct {
	TestID      string `json:"test_id"`
	DisplayName string `json:"display_name"`
	Group       string `json:"group"`
	Status      string `json:"status"`
	Runs        []Run  `json:"runs"`
	Stats       *struct {
		PassRate         float64   `json:"pass_rate"`
		AvgScore         float64   `json:"avg_score"`
		AvgWeightedScore float64   `json:"avg_weighted_score"`
		MinScore         float64   `json:"min_score"`
		MaxScore         float64   `json:"max_score"`
		StdDevScore      float64   `json:"std_dev_score"`
		ScoreVariance    float64   `json:"score_variance"`
		CI95Lo           float64   `json:"ci95_lo"`
		CI95Hi           float64   `json:"ci95_hi"`
		Flaky            bool      `json:"flaky"`
		AvgDurationMS    int64     `json:"avg_duration_ms"`
		BootstrapCI      *Interval `json:"bootstrap_ci"`
		IsSignificant    *bool     `json:"is_significant"`
	} `json:"stats"`
	SkillImpact *struct {
		WithSkills    float64         `json:"pass_rate_with_skills"`
		Baseline      float64         `json:"pass_rate_baseline"`
		Delta         float64         `json:"delta"`
		PercentChange float64         `json:"percent_change"`
		Pairwise      json.RawMessage `json:"pairwise"`
	} `json:"skill_impact"`
}

// Run is one trial.
type Run struct {
	RunNumber   int    `json:"run_number"`
	Attempts    int    `json:"attempts"`
	Status      string `json:"status"`
	DurationMS  int64  `json:"duration_ms"`
	Validations map[string]struct {
		Identifier string         `json:"identifier"`
		Type       string         `json:"type"`
		Score      float64        `json:"score"`
		Weight     float64        `json:"weight"`
		Passed     bool           `json:"passed"`
		Feedback   string         `json:"feedback"`
		Details    map[string]any `json:"details"`
		DurationMS int64          `json:"duration_ms"`
	} `json:"validations"`
	SessionDigest struct {
		ToolCallCount int      `json:"tool_call_count"`
		ToolsUsed     []string `json:"tools_used"`
		ToolCalls     []struct {
			Name      string `json:"name"`
			Arguments struct {
				Path        string `json:"path"`
				FileText    string `json:"file_text"`
				Command     string `json:"command"`
				Description string `json:"description"`
				Skill       string `json:"skill"`
			} `json:"arguments"`
			Result  *Result `json:"result"`
			Success bool    `json:"success"`
		} `json:"tool_calls"`
		Errors    []string `json:"errors"`
		Usage     *Usage   `json:"usage"`
		SessionID string   `json:"session_id"`
	} `json:"session_digest"`
	Transcript []struct {
		Type       string  `json:"type"`
		Content    *string `json:"content"`
		Message    *string `json:"message"`
		ToolCallID *string `json:"tool_call_id"`
		ToolName   *string `json:"tool_name"`
		Arguments  any     `json:"arguments"`
		Success    *bool   `json:"success"`
		ToolResult *Result `json:"tool_result"`
	} `json:"transcript"`
	FinalOutput string `json:"final_output"`
	ErrorMsg    string `json:"error_msg"`
	ToolEvents  []struct {
		Turn       int     `json:"turn"`
		Sequence   int     `json:"sequence"`
		ToolCallID string  `json:"tool_call_id"`
		ToolName   string  `json:"tool_name"`
		Args       any     `json:"args"`
		Result     any     `json:"result"`
		Success    bool    `json:"success"`
		Error      string  `json:"error"`
		DurationMS float64 `json:"duration_ms"`
	} `json:"tool_events"`
	Usage *Usage `json:"usage"`
}

// Result is a tool's result.
type Result struct {
	Content         string            `json:"content"`
	Contents        []json.RawMessage `json:"contents"`
	DetailedContent *string           `json:"detailedContent"`
}

// Usage is the usage of models.
type Usage struct {
	Turns            int     `json:"turns"`
	InputTokens      int     `json:"input_tokens"`
	OutputTokens     int     `json:"output_tokens"`
	CacheReadTokens  int     `json:"cache_read_tokens"`
	CacheWriteTokens int     `json:"cache_write_tokens"`
	PremiumRequests  float64 `json:"premium_requests"`
	ModelMetrics     map[string]struct {
		InputTokens      int     `json:"input_tokens"`
		OutputTokens     int     `json:"output_tokens"`
		CacheReadTokens  int     `json:"cache_read_tokens"`
		CacheWriteTokens int     `json:"cache_write_tokens"`
		RequestCount     float64 `json:"request_count"`
		RequestCost      float64 `json:"request_cost"`
	} `json:"model_metrics"`
}

// Interval is a confidence interval.
type Interval struct {
	Lower           float64 `json:"lower"`
	Upper           float64 `json:"upper"`
	Mean            float64 `json:"mean"`
	ConfidenceLevel float64 `json:"confidence_level"`
	NumBootstraps   int     `json:"num_bootstraps"`
}

// Read decodes a results.json. It fails the test if upstream would reject the file or not
// recognize it.
func Read(t testing.TB, data []byte) Outcome {
	t.Helper()
	var o Outcome
	if err := json.Unmarshal(data, &o); err != nil {
		t.Fatalf("upstream waza cannot read results.json: %v", err)
	}
	if o.RunID == "" || o.EvalName == "" && o.Summary.TotalTests == 0 {
		t.Errorf("upstream waza does not recognize results.json: eval_id %q, eval_name %q, %d tests", o.RunID, o.EvalName, o.Summary.TotalTests)
	}
	return o
}
