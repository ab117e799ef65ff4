package runner

import (
	"github.com/waza-isolate/waza/runner/spec"
)

// ModelHost is the name under which an agent finds its models: each provider's base
// URL is http://model/PROVIDER there.
const ModelHost = "model"

// Models is what a trial's agent may ask of models, through the runner. Keys are in no
// plan.
type Models struct {
	Providers []Provider       `json:"providers"` // by name
	Provider  string           `json:"provider"`  // the one that has the agent's model
	Model     string           `json:"model"`     // the agent's, as the provider calls it
	Limits    spec.ModelLimits `json:"limits"`
}

// Provider is where models are asked.
type Provider struct {
	Name      string `json:"name"`
	Kind      string `json:"kind"`               // whose API it speaks
	BaseURL   string `json:"base_url,omitempty"` // empty with a script
	APIKeyEnv string `json:"api_key_env,omitempty"`
	Script    string `json:"script,omitempty"` // its file, as the eval names it
}

// modelURL is the base URL of the provider that has the agent's model, as the agent
// reaches it; empty where it has none.
func modelURL(t *Trial, _ Layout) string {
	if t.Models == nil {
		return ""
	}
	return "http://" + ModelHost + "/" + t.Models.Provider
}
