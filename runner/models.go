package runner

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/waza-isolate/waza/eval"
	"github.com/waza-isolate/waza/sandbox"
)

// Models is what a trial's agent may ask of models, through the runner. Keys are in no
// plan.
type Models struct {
	Providers []Provider       `json:"providers"` // by name
	Provider  string           `json:"provider"`  // the one that has the agent's model
	Model     string           `json:"model"`     // the agent's, as the provider calls it
	Limits    eval.ModelLimits `json:"limits"`
}

// Provider is where models are asked.
type Provider struct {
	Name      string                `json:"name"`
	Kind      string                `json:"kind"`               // whose API it speaks
	BaseURL   string                `json:"base_url,omitempty"` // empty with a script
	APIKeyEnv string                `json:"api_key_env,omitempty"`
	Headers   []string              `json:"headers,omitempty"` // names of those that the runner adds
	Prices    map[string]eval.Price `json:"prices,omitempty"`
	Script    string                `json:"script,omitempty"` // its file, as the eval names it

	access access
}

// chosen is the provider that has the agent's model.
func (m *Models) chosen() Provider {
	return m.Providers[slices.IndexFunc(m.Providers, func(p Provider) bool { return p.Name == m.Provider })]
}

// describe tells of the models as a person reads it.
func (m *Models) describe(b *strings.Builder) {
	line := func(format string, args ...any) { fmt.Fprintf(b, "              "+format+"\n", args...) }
	fmt.Fprintf(b, "  models      %s of provider %s\n", cmp.Or(m.Model, "any model"), m.Provider)
	for _, p := range m.Providers {
		line("http://%s/%s is %s", sandbox.ModelHost, p.Name, p.describe())
	}
	line("at most %s", describeModelLimits(m.Limits))
}

func (p Provider) describe() string {
	if p.Script != "" {
		return "the script " + p.Script
	}
	key := "without a key"
	if p.APIKeyEnv != "" {
		key = "the key in $" + p.APIKeyEnv
	}
	text := fmt.Sprintf("%s, %s API, %s", p.BaseURL, p.Kind, key)
	if len(p.Headers) > 0 {
		text += fmt.Sprintf(", headers %q", p.Headers)
	}
	return text
}

func describeModelLimits(l eval.ModelLimits) string {
	text := fmt.Sprintf("%d requests", l.Requests)
	if l.Tokens > 0 {
		text += fmt.Sprintf(", %d tokens", l.Tokens)
	}
	if l.Cost > 0 {
		text += fmt.Sprintf(", %g US dollars", l.Cost)
	}
	if l.Seconds > 0 {
		text += fmt.Sprintf(", %d seconds", l.Seconds)
	}
	return text
}

// modelURL is the base URL of the provider that has the agent's model, as the agent
// reaches it; empty where it has none.
func modelURL(t *Trial, box sandbox.Layout) string {
	if t.Models == nil {
		return ""
	}
	return box.Models + "/" + t.Models.Provider
}
