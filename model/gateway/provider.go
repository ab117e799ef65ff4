package gateway

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/waza-isolate/waza/eval"
)

// Provider is where models are asked.
type Provider struct {
	Name    string   // the first segment of the paths that are its
	Kind    string   // whose API it speaks, one of eval.ModelKinds
	BaseURL *url.URL // that its paths are below
	// Transport asks it, and is given back no redirects; required.
	Transport http.RoundTripper
	Key       string            // empty for none
	KeyEnv    string            // the variable that the key is from, for messages
	Headers   map[string]string // set over what the agent sent
	// Secrets are what of Headers must not be told to anybody.
	Secrets []string
	Prices  map[string]eval.Price // by model
	// Silence is how long it may say nothing, before an answer and within it; default
	// 10 minutes.
	Silence time.Duration
}

// defaultSilence is long: a model that thinks may say nothing meanwhile.
const defaultSilence = 10 * time.Minute

func (p Provider) validate() error {
	switch {
	case p.Name == "" || strings.ContainsAny(p.Name, "/%?# "):
		return fmt.Errorf("gateway: %q is no name for a provider", p.Name)
	case p.BaseURL == nil || p.Transport == nil:
		return fmt.Errorf("gateway: provider %q has no URL or no transport", p.Name)
	case p.Silence < 0:
		return errors.New("gateway: a limit is negative")
	}
	return nil
}

// credentials are the headers that an agent may hold a key in, for whatever provider.
func credentials() []string {
	return []string{"Authorization", "X-Api-Key", "X-Goog-Api-Key", "Api-Key", "Cookie"}
}

// authorize takes away the credentials that came and adds the provider's own, as it wants
// them.
func (p Provider) authorize(h http.Header) {
	for _, name := range credentials() {
		h.Del(name)
	}
	if p.Key != "" {
		switch p.Kind {
		case eval.KindAnthropic:
			h.Set("X-Api-Key", p.Key)
		case eval.KindGoogle:
			h.Set("X-Goog-Api-Key", p.Key)
		case eval.KindAzure:
			h.Set("Api-Key", p.Key)
		default:
			h.Set("Authorization", "Bearer "+p.Key)
		}
	}
	for name, value := range p.Headers {
		h.Set(name, value)
	}
}

// refusesKey is what to tell a person of a 401 or a 403; empty for another status.
func (p Provider) refusesKey(status int) string {
	if status != http.StatusUnauthorized && status != http.StatusForbidden {
		return ""
	}
	if p.KeyEnv == "" {
		return fmt.Sprintf("the model provider %q answered %d and has no key; name the variable that holds one in config.models.%[1]s.api_key_env", p.Name, status)
	}
	return fmt.Sprintf("the model provider %q answered %d to its key; set the environment variable %s to one that is valid there", p.Name, status, p.KeyEnv)
}
