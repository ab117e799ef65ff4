package runner

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
	"github.com/waza-isolate/waza/internal/apikey"
	"github.com/waza-isolate/waza/mcpconfig"
	"github.com/waza-isolate/waza/model/gateway"
)

// ModelScript makes what plays a model's turns, from the first on.
type ModelScript func() http.Handler

// access is what it takes to ask a provider, and is in no plan.
type access struct {
	url     *url.URL
	key     string
	headers map[string]string
	secrets []string // of headers
	// variables are those that headers take their values from.
	variables []string
	silence   time.Duration
	proxy     func(*url.URL) (*url.URL, error)
	script    ModelScript
	file      string // of the script
}

// planModels is what the agent may ask of models, nil for nothing. Keys become known as
// secrets.
func planModels(e *eval.Eval, c Choices) (*Models, error) {
	declared := e.Config.Models
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

// kindsOf are the kinds of providers that an eval's agent can use, the one it is made for
// first; none where it needs no model.
func kindsOf(e *eval.Eval) []string {
	switch {
	case e.Adapter != nil:
		return e.Adapter.Kinds()
	case e.Config.Executor == "llm":
		return []string{eval.KindOpenAI}
	}
	return nil
}

// impliedModels is the provider of an executor's own kind, where the usual variable holds
// its key.
func impliedModels(e *eval.Eval, lookup func(string) (string, bool), keyless bool) (map[string]*eval.Model, error) {
	config, kinds := e.Config, kindsOf(e)
	if prefix, _, ok := strings.Cut(config.Model, "/"); ok && len(kinds) > 0 && slices.Contains(eval.ModelKinds(), prefix) {
		if !slices.Contains(kinds, prefix) {
			return nil, fmt.Errorf("executor %s asks models of %s, and config.model is one of %s; name another, or say in config.models where it is", config.Executor, strings.Join(kinds, " or "), prefix)
		}
		kinds = []string{prefix}
	}
	if kind := eval.KindOfModel(config.Model); slices.Contains(kinds, kind) { // whose name it bears
		kinds = slices.Concat([]string{kind}, slices.DeleteFunc(slices.Clone(kinds), func(k string) bool { return k == kind }))
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
	return nil, fmt.Errorf("executor %s needs a model: set %s, or say in config.models where one is%s", config.Executor, strings.Join(variables, " or "), hint)
}

func planProvider(e *eval.Eval, name string, m eval.Model, c Choices) (Provider, error) {
	p := Provider{Name: name, Kind: m.Kind, BaseURL: m.BaseURL, APIKeyEnv: m.APIKeyEnv, Script: m.Script, Prices: m.Prices, Headers: slices.Sorted(maps.Keys(m.Headers))}
	if m.Script != "" {
		return p.scripted(e, m, c)
	}
	var err error
	if p.access.url, err = m.Endpoint(); err != nil {
		return p, fmt.Errorf("base_url %w", err)
	}
	if m.APIKeyEnv != "" {
		p.access.key, _ = c.Lookup(m.APIKeyEnv)
		if err := apikey.Check(m.APIKeyEnv, p.access.key, fmt.Sprintf("the model provider %q", name)); err != nil && !c.Keyless {
			return p, err
		}
		c.Secrets.Add(p.access.key)
	}
	p.access.headers = map[string]string{}
	lookup := func(variable string) (string, bool) {
		p.access.variables = append(p.access.variables, variable)
		return c.Lookup(variable)
	}
	for header, text := range m.Headers {
		value, secrets, err := mcpconfig.ExpandText(text, lookup)
		if err == nil && strings.ContainsAny(value, "\r\n\x00") {
			err = errors.New("its value has a line break or a NUL")
		}
		if err != nil {
			return p, fmt.Errorf("headers.%s: %w", header, err)
		}
		for _, secret := range secrets {
			c.Secrets.Add(secret)
		}
		p.access.headers[header], p.access.secrets = value, append(p.access.secrets, secrets...)
	}
	p.access.silence, p.access.proxy = time.Duration(m.TimeoutSeconds)*time.Second, proxyOf(c.Lookup)
	return p, nil
}

func (p Provider) scripted(e *eval.Eval, m eval.Model, c Choices) (Provider, error) {
	if c.ModelScript == nil {
		return p, errors.New("nobody here plays scripts")
	}
	data, err := eval.ReadModelScript(e, m)
	if err != nil {
		return p, err
	}
	p.access.file = eval.ModelScriptPath(e, m)
	p.access.script, err = c.ModelScript(p.access.file, data)
	return p, err
}

// proxyOf is the runner's own proxy for requests that go out.
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

// KeyVariables are the variables that hold what programs of trials do not get from the
// runner's environment: keys of the models and judges that the runner asks for them, and
// secrets of servers, which are given to these alone.
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
			names = append(append(names, p.APIKeyEnv), p.access.variables...)
		}
	}
	slices.Sort(names)
	return slices.DeleteFunc(slices.Compact(names), func(name string) bool { return name == "" })
}
