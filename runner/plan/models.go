package plan

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"golang.org/x/net/http/httpproxy"

	"github.com/waza-isolate/waza/eval"
	"github.com/waza-isolate/waza/evidence"
	"github.com/waza-isolate/waza/evidence/cassette"
	"github.com/waza-isolate/waza/evidence/secret"
	"github.com/waza-isolate/waza/mcpconfig"
	"github.com/waza-isolate/waza/model/gateway"
	"github.com/waza-isolate/waza/model/recorded"
)

// Models are the models that a trial's agent may ask through the runner. API keys are not part
// of a plan.
type Models struct {
	Providers []Provider       `json:"providers"` // ordered by name
	Provider  string           `json:"provider"`  // name of the provider of the agent's model
	Model     string           `json:"model"`     // the agent's model, as the provider names it
	Limits    eval.ModelLimits `json:"limits"`
}

// Provider is a model provider.
type Provider struct {
	Name      string                `json:"name"`
	Kind      string                `json:"kind"`               // whose API it implements
	BaseURL   string                `json:"base_url,omitempty"` // empty for a script
	APIKeyEnv string                `json:"api_key_env,omitempty"`
	Headers   []string              `json:"headers,omitempty"` // names of headers that the runner adds
	Prices    map[string]eval.Price `json:"prices,omitempty"`
	Script    string                `json:"script,omitempty"` // path of the script's file, as in the eval
	Played    bool                  `json:"played,omitempty"` // answered from the cassette
	Live      bool                  `json:"live,omitempty"`   // asked if the cassette has no answer

	Access Access `json:"-"`
}

// chosen returns the provider of the agent's model.
func (m *Models) chosen() Provider {
	return m.Providers[slices.IndexFunc(m.Providers, func(p Provider) bool { return p.Name == m.Provider })]
}

// ModelScript returns a handler that plays a scripted model from its first turn.
type ModelScript func() http.Handler

// Access is what requests to a provider need. It is not part of a plan.
type Access struct {
	gateway.Provider          // without a Transport
	variables        []string // environment variables used in headers
	Proxy            func(*url.URL) (*url.URL, error)
	Script           ModelScript
	File             string         // path of the script, if it is read
	Side             *cassette.Side // what is played
}

// planModels plans the models that the agent may ask, or returns nil. It adds API keys to the
// secrets.
func planModels(e *eval.Eval, c Choices) (*Models, error) {
	declared := e.Config.Models
	if e.Plays(cassette.Models) && !e.MissLive {
		c.Keyless = true // no provider is asked
	}
	if len(declared) == 0 {
		implied, err := impliedModels(e, c.Lookup, c.Keyless)
		if implied == nil || err != nil {
			return nil, err
		}
		declared = implied
	}
	names := slices.Sorted(maps.Keys(declared))
	provider, name, err := eval.ProviderOf(e.Config.Model, names)
	if err != nil {
		return nil, fmt.Errorf("config.model %q: %w", e.Config.Model, err)
	}
	m := &Models{Provider: provider, Model: name, Limits: e.Config.ModelLimits}
	m.Limits.Requests = cmp.Or(m.Limits.Requests, gateway.DefaultRequests)
	for _, name := range names {
		p, err := planProvider(e, name, declared[name].Completed(name), c)
		if err != nil {
			return nil, fmt.Errorf("config.models.%s: %w", name, err)
		}
		m.Providers = append(m.Providers, p)
	}
	if _, priced := declared[provider].Prices[m.Model]; m.Limits.Cost > 0 && !priced {
		return nil, fmt.Errorf("config.model_limits.cost needs the price of the model %q; give it one in config.models.%s.prices", m.Model, provider)
	}
	return m, nil
}

// kindsOf returns the kinds of providers that the eval's agent can use, the preferred one
// first.
func kindsOf(e *eval.Eval) []string {
	switch {
	case e.Adapter != nil:
		return e.Adapter.Kinds()
	case e.Config.Executor == evidence.ExecutorLLM:
		return []string{eval.KindOpenAI}
	}
	return nil
}

// impliedModels returns a provider that the executor supports and whose API key is set.
func impliedModels(e *eval.Eval, lookup func(string) (string, bool), keyless bool) (map[string]*eval.Model, error) {
	config, kinds := e.Config, kindsOf(e)
	if prefix, _, ok := strings.Cut(config.Model, "/"); ok && len(kinds) > 0 && slices.Contains(eval.ModelKinds(), prefix) {
		if !slices.Contains(kinds, prefix) {
			return nil, fmt.Errorf("executor %s uses models of %s, but config.model is of %s; choose another model, or declare its provider in config.models", config.Executor, strings.Join(kinds, " or "), prefix)
		}
		kinds = []string{prefix}
	}
	if kind := eval.KindOfModel(config.Model); slices.Contains(kinds, kind) { // the model is named after a provider
		kinds = slices.Concat([]string{kind}, slices.DeleteFunc(slices.Clone(kinds), func(k string) bool { return k == kind }))
	}
	if e.Plays(cassette.Models) {
		recorded := e.Cassette.Names(cassette.Models)
		if i := slices.IndexFunc(kinds, func(kind string) bool { return slices.Contains(recorded, kind) }); i >= 0 {
			return map[string]*eval.Model{kinds[i]: {}}, nil
		}
	}
	var variables []string
	for _, kind := range kinds {
		_, variable := eval.ModelDefaults(kind)
		if key, _ := lookup(variable); key != "" {
			return map[string]*eval.Model{kind: {}}, nil
		}
		variables = append(variables, variable)
	}
	switch {
	case len(variables) == 0:
		return nil, nil
	case keyless:
		return map[string]*eval.Model{kinds[0]: {}}, nil
	}
	hint := ""
	if e.Adapter != nil && strings.HasPrefix(config.Executor, "copilot") {
		hint = "; a subscription to Copilot, and its tokens, cannot be used"
	}
	return nil, fmt.Errorf("executor %s has no provider of models; set %s to the key of one, or name one in config.models%s", config.Executor, strings.Join(variables, " or "), hint)
}

func planProvider(e *eval.Eval, name string, m eval.Model, c Choices) (Provider, error) {
	p := Provider{Name: name, Kind: m.Kind, BaseURL: m.BaseURL, APIKeyEnv: m.APIKeyEnv, Script: m.Script, Prices: m.Prices, Headers: slices.Sorted(maps.Keys(m.Headers))}
	p.Access.Provider = gateway.Provider{Name: name, Kind: m.Kind, KeyEnv: m.APIKeyEnv, Prices: m.Prices, Headers: map[string]string{}}
	if e.Plays(cassette.Models) && !e.MissLive {
		return p, nil // it is not asked
	}
	if m.Script != "" {
		return p.scripted(e, m, c)
	}
	var err error
	if p.Access.BaseURL, err = m.Endpoint(); err != nil {
		return p, fmt.Errorf("base_url %w", err)
	}
	if m.APIKeyEnv != "" {
		p.Access.Key, _ = c.Lookup(m.APIKeyEnv)
		if err := secret.CheckKey(m.APIKeyEnv, p.Access.Key, fmt.Sprintf("the model provider %q", name)); err != nil && !c.Keyless {
			return p, err
		}
		c.Secrets.Add(p.Access.Key, m.APIKeyEnv)
	}
	lookup := func(variable string) (string, bool) {
		p.Access.variables = append(p.Access.variables, variable)
		return c.Lookup(variable)
	}
	for header, text := range m.Headers {
		value, values, err := mcpconfig.ExpandText(text, lookup)
		if err == nil && strings.ContainsAny(value, "\r\n\x00") {
			err = errors.New("its value has a line break or a NUL")
		}
		if err != nil {
			return p, fmt.Errorf("headers.%s: %w", header, err)
		}
		p.Access.Headers[header], p.Access.Secrets = value, append(p.Access.Secrets, c.hide(values)...)
	}
	p.Access.Silence, p.Access.Proxy = time.Duration(m.TimeoutSeconds)*time.Second, proxyOf(c.Lookup)
	return p, nil
}

// playedFor returns the models with the eval's recorded answers for a task. A provider that the
// cassette lacks was not asked during recording.
func (m *Models) playedFor(e *eval.Eval, task string) (*Models, error) {
	if m == nil || !e.Plays(cassette.Models) {
		return m, nil
	}
	played := *m
	played.Providers = slices.Clone(m.Providers)
	for i := range played.Providers {
		p := &played.Providers[i]
		side, err := e.Cassette.Side(cassette.Models, task, p.Name)
		if side == nil {
			side = &cassette.Side{}
		}
		if err == nil {
			_, err = recorded.Play(side, recorded.Options{})
		}
		if err != nil {
			return nil, fmt.Errorf("model provider %q in the cassette: %w", p.Name, err)
		}
		p.Played, p.Live, p.Access.Side = true, e.MissLive, side
	}
	return &played, nil
}

func (p Provider) scripted(e *eval.Eval, m eval.Model, c Choices) (Provider, error) {
	if c.ModelScript == nil {
		return p, errors.New("nobody here plays scripts")
	}
	data, err := eval.ReadModelScript(e, m)
	if err != nil {
		return p, err
	}
	p.Access.File = eval.ModelScriptPath(e, m)
	p.Access.Script, err = c.ModelScript(p.Access.File, data)
	return p, err
}

// proxyOf returns the runner's own HTTP proxy for requests to providers.
func proxyOf(lookup func(string) (string, bool)) func(*url.URL) (*url.URL, error) {
	either := func(name string) string {
		if value, ok := lookup(name); ok {
			return value
		}
		value, _ := lookup(strings.ToLower(name))
		return value
	}
	config := httpproxy.Config{HTTPProxy: either("HTTP_PROXY"), HTTPSProxy: either("HTTPS_PROXY"), NoProxy: either("NO_PROXY")}
	return config.ProxyFunc()
}

// KeyVariables returns the environment variables that are hidden from trials' programs: API
// keys of models and judges, and secrets of servers, which only their servers get.
func KeyVariables(trials []*Trial) []string {
	var names []string
	for _, t := range trials {
		for _, s := range t.Servers {
			for _, secret := range s.Config.Secrets {
				names = append(names, secret.Env)
			}
		}
		if t.Judge != nil {
			names = append(names, t.Judge.APIKeyEnv)
		}
		if t.Models == nil {
			continue
		}
		for _, p := range t.Models.Providers {
			names = append(append(names, p.APIKeyEnv), p.Access.variables...)
		}
	}
	slices.Sort(names)
	return slices.DeleteFunc(slices.Compact(names), func(name string) bool { return name == "" })
}

// scriptedModel is the model's name for a script if the eval has none.
const scriptedModel = "scripted"

// forLLM returns an error if executor llm cannot use the eval's models: it needs a model with a
// name, from a provider with a chat completions API. Other executors have no such limits.
func (m *Models) forLLM(executor string) error {
	if executor != evidence.ExecutorLLM {
		return nil
	}
	if m == nil {
		return errors.New("executor llm needs a model: add a provider to config.models")
	}
	p := m.chosen()
	switch {
	case p.Kind == eval.KindAnthropic, p.Kind == eval.KindGoogle:
		return fmt.Errorf("executor llm speaks chat completions, and provider %s is of kind %s; give its OpenAI-compatible endpoint as a provider of its own, with kind: openai, base_url: %s and api_key_env: %s",
			p.Name, p.Kind, eval.ChatDefault(p.Kind), p.APIKeyEnv)
	case m.Model == "" && p.Script == "":
		return errors.New("executor llm needs config.model: the name of a model, as its provider calls it")
	case m.Model == "":
		m.Model = scriptedModel
	}
	return nil
}
