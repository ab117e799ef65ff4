package eval

import (
	"cmp"
	"errors"
	"maps"
	"net/netip"
	"net/url"
	"regexp"
	"slices"
	"strings"

	"github.com/waza-isolate/waza/evidence"
	"github.com/waza-isolate/waza/grading"
	"github.com/waza-isolate/waza/internal/files"
	"github.com/waza-isolate/waza/internal/strictyaml"
	"github.com/waza-isolate/waza/mcpconfig"
)

// Kinds of model providers, by their API.
const (
	KindOpenAI    = "openai"
	KindAnthropic = "anthropic"
	KindGoogle    = "google"
	KindAzure     = "azure"
)

// ModelKinds returns all kinds.
func ModelKinds() []string { return []string{KindOpenAI, KindAnthropic, KindGoogle, KindAzure} }

// kinds holds the defaults of each kind of provider: the base URL, if it is the same for all customers; the
// base URL of OpenAI's chat completions, if the provider has them; and the usual environment variable of the
// key.
var kinds = map[string]struct{ base, chat, key string }{
	KindOpenAI:    {"https://api.openai.com/v1", "https://api.openai.com/v1", "OPENAI_API_KEY"},
	KindAnthropic: {"https://api.anthropic.com", "https://api.anthropic.com/v1", "ANTHROPIC_API_KEY"},
	KindGoogle:    {"https://generativelanguage.googleapis.com", "https://generativelanguage.googleapis.com/v1beta/openai", "GEMINI_API_KEY"},
	KindAzure:     {"", "", "AZURE_OPENAI_API_KEY"},
}

// ModelDefaults returns the base URL of a kind's own provider, or "" if each customer has another, and the
// usual variable of its key.
func ModelDefaults(kind string) (baseURL, keyEnv string) {
	k, known := kinds[kind]
	if !known { // reported already
		k = kinds[KindOpenAI]
	}
	return k.base, k.key
}

// ChatDefault returns the base URL of OpenAI's chat completions at a kind's own provider, or
// "".
func ChatDefault(kind string) string { return kinds[kind].chat }

// KindOfModel returns the kind of provider for a model's name, such as anthropic for
// claude-…, or "" if unknown.
func KindOfModel(model string) string {
	name := model[strings.LastIndexByte(model, '/')+1:]
	for prefix, kind := range map[string]string{
		"claude": KindAnthropic, "gpt-": KindOpenAI, "o1": KindOpenAI, "o3": KindOpenAI, "o4": KindOpenAI, "codex": KindOpenAI, "gemini": KindGoogle,
	} {
		if strings.HasPrefix(strings.ToLower(name), prefix) {
			return kind
		}
	}
	return ""
}

// Completed returns m with defaults. name is its key in the eval. The default key is sent only to the kind's
// own provider and to Azure, where each customer has another address.
func (m Model) Completed(name string) Model {
	if m.Script != "" {
		m.Kind = KindOpenAI
		return m
	}
	if m.Kind == "" {
		m.Kind = KindOpenAI
		if slices.Contains(ModelKinds(), name) {
			m.Kind = name
		}
	}
	base, key := ModelDefaults(m.Kind)
	if m.APIKeyEnv == "" && (m.BaseURL == "" || m.Kind == KindAzure) {
		m.APIKeyEnv = key
	}
	m.BaseURL = cmp.Or(m.BaseURL, base)
	return m
}

// Endpoint parses the base URL, which must use https, or http to an address of this machine or its network.
// The key of the URL is the subject of its errors.
func (m Model) Endpoint() (*url.URL, error) {
	return evidence.ReadBaseURL(m.BaseURL, IsNearby, "on the runner's network",
		"localhost, private addresses, and names without a dot or that end in .localhost, .local, .home.arpa or .internal")
}

// IsNearby reports whether a host is on this machine or its network.
func IsNearby(host string) bool {
	addr, err := netip.ParseAddr(host)
	if err == nil {
		return addr.IsLoopback() || addr.IsPrivate()
	}
	return mcpconfig.IsNearbyName(host)
}

// errNoProvider is the error for a model that no provider has.
var errNoProvider = errors.New("no provider of config.models has it")

// ProviderOf returns the provider of a model written as PROVIDER/MODEL or MODEL, and the name of the model
// there. A single provider has all models, with or without its name.
func ProviderOf(model string, providers []string) (provider, name string, err error) {
	if prefix, rest, ok := strings.Cut(model, "/"); ok && slices.Contains(providers, prefix) {
		return prefix, rest, nil
	}
	if len(providers) == 1 {
		return providers[0], model, nil
	}
	return "", "", errNoProvider
}

// models checks config.models.
func (c checker) models(config Config) {
	for _, name := range slices.Sorted(maps.Keys(config.Models)) {
		at := strictyaml.Path{"config", "models", name}
		if !providerName.MatchString(name) {
			c.doc.KeyProblemf(at, "%q cannot name a provider, which is a part of URLs; use lowercase letters, digits and hyphens between them", name)
		}
		m := config.Models[name]
		switch {
		case m == nil:
			c.doc.Problemf(at, "%s is empty; remove it, or write {} for the defaults", at)
		case m.Script != "":
			c.scripted(*m, at)
		default:
			c.provider(name, *m, at)
		}
	}
	c.modelOf(config)
	c.modelLimits(config)
}

var (
	providerName = regexp.MustCompile(mcpconfig.LabelPattern)
	headerName   = regexp.MustCompile("^[A-Za-z0-9!#$%&'*+.^_`|~-]+$")
)

func (c checker) provider(name string, m Model, at strictyaml.Path) {
	named := slices.Contains(ModelKinds(), name)
	full := m.Completed(name)
	switch {
	case full.BaseURL == "" && full.Kind == KindAzure:
		c.doc.Problemf(at, `%s needs base_url, such as https://NAME.openai.azure.com/openai`, at)
	case m.BaseURL == "" && m.Kind == "" && !named:
		c.doc.Problemf(at, "%s needs base_url or kind, since %q is not a known provider: %s", at, name, strings.Join(ModelKinds(), ", "))
	default:
		if _, err := full.Endpoint(); err != nil {
			c.doc.Problemf(at.With("base_url"), "%s.base_url %v", at, err)
		}
	}
	if m.APIKeyEnv != "" && !mcpconfig.IsVariable(m.APIKeyEnv) {
		c.doc.Problemf(at.With("api_key_env"), "%s.api_key_env must be the name of an environment variable, not its value", at)
	}
	for _, header := range slices.Sorted(maps.Keys(m.Headers)) {
		here := at.With("headers", header)
		if isOurs := slices.Contains([]string{"accept-encoding", "connection", "content-length", "host", "transfer-encoding"}, strings.ToLower(header)); isOurs || !headerName.MatchString(header) {
			c.doc.KeyProblemf(here, "%s is not a header that can be set", here)
		}
		if err := mcpconfig.CheckText(m.Headers[header]); err != nil {
			c.doc.Problemf(here, "%s: %v", here, err)
		}
	}
	c.prices(m, at)
}

func (c checker) prices(m Model, at strictyaml.Path) {
	if _, ok := m.Prices[""]; ok {
		c.doc.Problemf(at.With("prices"), "%s.prices has a price of a model without a name", at)
	}
}

// scripted checks that there are no keys other than script and prices, since no provider is used.
func (c checker) scripted(m Model, at strictyaml.Path) {
	for _, key := range strictyaml.Given(m) {
		if path := at.With(key); key != "script" && key != "prices" {
			c.doc.Problemf(path, "%s has no effect with %s.script, which asks no model; remove one of them", path, at)
		}
	}
	c.prices(m, at)
	path := at.With("script")
	data, err := ReadModelScript(c.eval, m)
	if err == nil && c.opts.CheckModelScript != nil {
		err = c.opts.CheckModelScript(ModelScriptPath(c.eval, m), data)
	}
	if _, placed := errors.AsType[strictyaml.Errors](err); placed {
		c.fail(err)
	} else if err != nil {
		c.doc.Problemf(path, "%s: %s", path, flat(err))
	}
}

func (c checker) modelOf(config Config) {
	providers := slices.Sorted(maps.Keys(config.Models))
	at := strictyaml.Path{"config", "model"}
	if len(providers) == 0 {
		return
	}
	if _, _, err := ProviderOf(config.Model, providers); err == nil {
		return
	}
	if config.Model == "" {
		c.doc.Problemf(strictyaml.Path{"config"}, "config.models has %d providers; say in config.model which the agent uses, as PROVIDER/MODEL", len(providers))
		return
	}
	prefix, _, _ := strings.Cut(config.Model, "/")
	c.doc.Problemf(at, "config.model %q begins with no provider of config.models; %s", config.Model, strictyaml.Suggest(prefix, providers))
}

func (c checker) modelLimits(config Config) {
	at := strictyaml.Path{"config", "model_limits"}
	asksNobody := (evidence.AsksNoModel(config.Executor) || config.Executor == evidence.ExecutorCommand) && len(config.Models) == 0
	if asksNobody && config.ModelLimits != (ModelLimits{}) {
		c.doc.Problemf(at, "config.model_limits has no effect without config.models; add models, or remove it")
	}
	if config.ModelLimits.Cost == 0 || len(config.Models) == 0 {
		return
	}
	provider, model, err := ProviderOf(config.Model, slices.Sorted(maps.Keys(config.Models)))
	if err != nil || config.Models[provider] == nil {
		return // reported already
	}
	if _, ok := config.Models[provider].Prices[model]; !ok {
		c.doc.Problemf(at.With("cost"), "config.model_limits.cost needs the price of the model; give config.models.%s.prices one of %q", provider, model)
	}
}

// ModelScriptPath returns the path of a provider's script.
func ModelScriptPath(e *Eval, m Model) string {
	return e.besides(m.Script)
}

// ReadModelScript reads a provider's script.
func ReadModelScript(e *Eval, m Model) ([]byte, error) {
	path := ModelScriptPath(e, m)
	data, err := files.Read(path, strictyaml.MaxBytes)
	if err != nil {
		return nil, unreadable(path, err)
	}
	return data, nil
}

// checkJudge checks config.judge.
func checkJudge(doc *strictyaml.Document, j *Judge) {
	if j == nil {
		return
	}
	if _, err := (evidence.Judge{BaseURL: j.BaseURL}).Endpoint(); err != nil && j.BaseURL != "" {
		doc.Problemf(strictyaml.Path{"config", "judge", "base_url"}, "config.judge.base_url %v", err)
	}
	if j.APIKeyEnv != "" && !mcpconfig.IsVariable(j.APIKeyEnv) {
		doc.Problemf(strictyaml.Path{"config", "judge", "api_key_env"}, "config.judge.api_key_env must be the name of an environment variable, not its value")
	}
}

// checkAsked checks that there is a model for a grader that asks one. at is the position of
// its config.
func (g *graders) checkAsked(name string, config any, at strictyaml.Path) {
	own, asks := grading.AsksJudge(config)
	c := g.eval.Config
	switch {
	case !asks || c.JudgeModel != "" || own != "":
	case c.Judge == nil && c.Model == "":
		g.doc.Problemf(at, "grader %q asks a model, and none is named; set config.judge_model, or config.judge with base_url and model", name)
	case c.Judge != nil && c.Judge.Model == "":
		g.doc.Problemf(at, "grader %q asks a model, and none is named; set config.judge.model", name)
	}
}
