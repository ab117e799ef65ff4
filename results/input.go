package results

import (
	"encoding/json"
	"time"

	"github.com/waza-isolate/waza/evidence"
)

// Run is what is known of a run as a whole.
type Run struct {
	ID            string // unique, so that no two runs overwrite each other
	EvalName      string
	Skill         string
	Labels        map[string]json.RawMessage
	Model         string
	Executor      string
	JudgeModel    string // empty where no grader asks one
	Timeout       time.Duration
	TrialsPerTask int
	Isolated      bool     // trials ran in containers
	Weak          []string // attacks that get out of these
	Started       time.Time
	Ended         time.Time
	Metrics       []MetricSpec
	Tasks         []TaskInfo // in the order to report
	NoAttacks     bool       // what attacks inject was left out
	NoSkills      bool       // skills were left out
	IsBaseline    bool       // likewise, to compare the same with skills
	Group         string     // of its tasks; empty where they are not grouped
}

// MetricSpec is a metric that the eval asks for. A Threshold of 0 asks for nothing.
type MetricSpec struct {
	Name      string  `json:"name"`
	Weight    float64 `json:"weight"`
	Threshold float64 `json:"threshold,omitempty"`
}

// TaskInfo is a task that the run was to run.
type TaskInfo struct {
	ID     string
	Name   string
	Labels map[string]json.RawMessage

	Trigger *TriggerTest // nil unless it is a prompt of trigger_tests.yaml
}

// Trial is one attempt of one trial: its evidence and its verdicts.
type Trial struct {
	evidence.Trial
	Path       string // of its evidence, in the run's directory
	Verdicts   evidence.Verdicts
	Calls      []evidence.Call
	Catalogs   []evidence.Catalog
	Events     []evidence.Event // those that OfServers says it of
	Observed   []evidence.Observed
	Stderr     map[string]Written         // by server
	Echoes     map[string][]evidence.Echo // by server
	Transcript []evidence.TranscriptEvent
	Steps      []evidence.Step      // also those of checkpoints
	Narration  *evidence.Narration  // nil without a transcript
	Gateway    bool                 // ours was in the way to the trial's models
	Models     []evidence.ModelCall // without their bytes
}
