package report

import (
	"encoding/json"
	"strings"
	"time"

	"go.yaml.in/yaml/v4"

	"github.com/waza-isolate/waza/evidence"
	"github.com/waza-isolate/waza/internal/text"
	"github.com/waza-isolate/waza/report/view"
)

// Within sets the run of the trial, and the path of its evidence in the run's directory.
func (t *Trial) Within(run view.Run, path string) {
	t.Dir, t.NextFailing = path, run.NextFailing(t.Task, t.Number)
	t.Again = "waza rerun " + text.ShellWord(run.Dir) + " --task " + text.ShellWord(text.GlobWord(t.Task)) + " --trials 1"
	t.AgainDoes = "Runs the task again as one trial."
	if run.Isolated {
		t.Again += " --keep"
		t.AgainDoes = "Runs the task again as one trial and keeps its sandbox until Ctrl-C; without --keep the sandbox is removed."
	}
}

// maxPrompt is the maximum length in bytes of the prompt in a trial's setup; the page shows
// it separately.
const maxPrompt = 2000

// setupOf returns the configuration of a trial as YAML of an eval: the executor and the
// servers of config, and the task with its graders.
func setupOf(t evidence.Trial) string {
	var plan struct {
		Timeout time.Duration `json:"timeout_ns"`
		Servers []struct {
			Name   string          `json:"name"`
			Config json.RawMessage `json:"config"`
		} `json:"servers"`
	}
	if json.Unmarshal(t.Plan, &plan) != nil { // there is no plan, or it has another version
		plan.Servers = nil
	}
	type grader struct {
		Type   string          `json:"type"`
		Name   string          `json:"name"`
		Weight float64         `json:"weight,omitempty"`
		Config json.RawMessage `json:"config,omitempty"`
	}
	var setup struct {
		Config struct {
			Executor string                     `json:"executor"`
			Timeout  float64                    `json:"timeout_seconds,omitempty"`
			Servers  map[string]json.RawMessage `json:"mcp_servers,omitempty"`
		} `json:"config"`
		ID     string `json:"id"`
		Name   string `json:"name"`
		Inputs struct {
			Prompt string `json:"prompt"`
		} `json:"inputs"`
		Graders []grader `json:"graders,omitempty"`
	}
	setup.Config.Executor, setup.Config.Timeout = t.Executor, plan.Timeout.Seconds()
	setup.Config.Servers = map[string]json.RawMessage{}
	for _, s := range plan.Servers {
		setup.Config.Servers[s.Name] = s.Config
	}
	setup.ID, setup.Name, setup.Inputs.Prompt = t.Task, t.TaskName, t.Prompt[:min(len(t.Prompt), maxPrompt)]
	for _, g := range t.Graders {
		one := grader{Type: g.Type, Name: g.Name, Config: g.Config}
		if g.Weight != 1 {
			one.Weight = g.Weight
		}
		setup.Graders = append(setup.Graders, one)
	}
	asJSON, err := evidence.Marshal(setup)
	if err != nil {
		return ""
	}
	return blockStyle(asJSON)
}

// breaks escapes characters that only strings can contain and that end a line for YAML 1.1 parsers.
var breaks = strings.NewReplacer("\u0085", `\u0085`, "\u2028", `\u2028`, "\u2029", `\u2029`)

// blockStyle returns JSON as multi-line YAML with the same order of keys.
func blockStyle(asJSON []byte) string {
	var n yaml.Node
	if err := yaml.Load([]byte(breaks.Replace(string(asJSON))), &n); err != nil { // it contains something that YAML does not allow, such as a control character
		return string(asJSON)
	}
	plainly(&n)
	asYAML, err := yaml.Dump(&n, yaml.WithLineWidth(-1), yaml.WithQuotePreference(yaml.QuoteDouble))
	if err != nil {
		return string(asJSON)
	}
	return string(asYAML)
}

// plainly removes brackets and quotes where they are unnecessary.
func plainly(n *yaml.Node) {
	n.Style = 0
	for _, child := range n.Content {
		plainly(child)
	}
}
