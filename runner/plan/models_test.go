package plan

import (
	"encoding/json"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/waza-isolate/waza/agents/adapter"
	"github.com/waza-isolate/waza/eval"
	"github.com/waza-isolate/waza/evidence/secret"
)

func choices(env map[string]string) Choices {
	return Choices{
		Secrets: &secret.Set{},
		Lookup:  func(name string) (string, bool) { value, ok := env[name]; return value, ok },
		ModelScript: func(string, []byte) (ModelScript, error) {
			return func() http.Handler { return http.NotFoundHandler() }, nil
		},
	}
}

// TestPlanModels checks what config.models is planned as, and that no plan holds a key.
func TestPlanModels(t *testing.T) {
	const key = "sk-a-key-of-somebody"
	c := choices(map[string]string{"OPENAI_API_KEY": key, "TEAM": "blue-team", "HTTPS_PROXY": "http://proxy.example:8080"})
	e := &eval.Eval{Config: eval.Config{Model: "openai/gpt", Models: map[string]*eval.Model{
		"openai": {Headers: map[string]string{"X-Team": "of ${TEAM}"}, TimeoutSeconds: 5, Prices: map[string]eval.Price{"gpt": {Input: 1, Output: 2}}},
		"near":   {BaseURL: "http://192.168.1.5:11434/v1"},
	}}}
	m, err := planModels(e, c)
	if err != nil {
		t.Fatal(err)
	}
	if m.Provider != "openai" || m.Model != "gpt" || m.Limits.Requests != 1000 || len(m.Providers) != 2 {
		t.Errorf("%+v", m)
	}
	near, openai := m.Providers[0], m.Providers[1]
	if near.Kind != "openai" || near.APIKeyEnv != "" || near.Access.Key != "" {
		t.Errorf("a provider of one's own gets %+v", near)
	}
	if openai.BaseURL != "https://api.openai.com/v1" || openai.Access.Key != key || openai.Access.Headers["X-Team"] != "of blue-team" || openai.Access.Silence.Seconds() != 5 {
		t.Errorf("%+v", openai)
	}
	if proxy, err := openai.Access.Proxy(openai.Access.BaseURL); err != nil || proxy.String() != "http://proxy.example:8080" {
		t.Errorf("proxy %v, %v", proxy, err)
	}
	if proxy, err := openai.Access.Proxy(&url.URL{Scheme: "http", Host: "127.0.0.1:1"}); err != nil || proxy != nil {
		t.Errorf("proxy to this machine %v, %v", proxy, err)
	}
	trial := &Trial{Models: m}
	plan, _ := json.Marshal(trial)
	for _, value := range []string{key, "blue-team"} {
		if strings.Contains(string(plan), value) || strings.Contains(trial.String(), value) {
			t.Errorf("the plan has %s: %s\n%s", value, plan, trial)
		}
		if c.Secrets.String(value) != secret.Marked(value) {
			t.Errorf("%s is not known as a secret", value)
		}
	}
}

// evalOf is an eval as it is once it is read.
func evalOf(path string, config eval.Config) *eval.Eval {
	own, _ := adapter.Builtin(config.Executor)
	return &eval.Eval{Path: path, Config: config, Adapter: own}
}

// TestImpliedModels checks which provider an executor gets where the eval names none.
func TestImpliedModels(t *testing.T) {
	tests := map[string]struct {
		executor, model string
		env             map[string]string
		want            string // provider, or what the error says
	}{
		"no model needed":     {"command", "", map[string]string{"OPENAI_API_KEY": "12345678"}, ""},
		"claude":              {"claude", "c", map[string]string{"ANTHROPIC_API_KEY": "12345678", "OPENAI_API_KEY": "12345678"}, "anthropic/c"},
		"gemini":              {"gemini", "", map[string]string{"GEMINI_API_KEY": "12345678"}, "google/"},
		"copilot, the second": {"copilot", "", map[string]string{"ANTHROPIC_API_KEY": "12345678"}, "anthropic/"},
		"copilot, by model":   {"copilot", "anthropic/c", map[string]string{"ANTHROPIC_API_KEY": "12345678", "OPENAI_API_KEY": "12345678"}, "anthropic/c"},
		"nothing set":         {"copilot", "", nil, "executor copilot has no provider of models; set OPENAI_API_KEY or ANTHROPIC_API_KEY to the key of one, or name one in config.models; a subscription to Copilot, and its tokens, cannot be used"},
		"another's model":     {"claude", "openai/m", map[string]string{"ANTHROPIC_API_KEY": "12345678"}, "executor claude uses models of anthropic, but config.model is of openai; choose another model, or declare its provider in config.models"},
		"another's key":       {"claude", "", map[string]string{"OPENAI_API_KEY": "12345678"}, "executor claude has no provider of models; set ANTHROPIC_API_KEY to the key of one, or name one in config.models"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			m, err := planModels(evalOf("", eval.Config{Executor: test.executor, Model: test.model}), choices(test.env))
			got := ""
			switch {
			case err != nil:
				got = err.Error()
			case m != nil:
				got = m.Provider + "/" + m.Model
			}
			if got != test.want {
				t.Errorf("%q, want %q", got, test.want)
			}
		})
	}
}

// TestPlanModelsRefuses checks what is wrong before anything is started.
func TestPlanModelsRefuses(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "script.yaml"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	env := map[string]string{"SHORT": "1234", "LINES": "12345\n678", "OPENAI_API_KEY": "12345678"}
	for name, test := range map[string]struct {
		config eval.Config
		says   string
	}{
		"no key":        {eval.Config{Models: map[string]*eval.Model{"anthropic": {}}}, "config.models.anthropic: the environment variable ANTHROPIC_API_KEY is not set"},
		"a short key":   {eval.Config{Models: map[string]*eval.Model{"openai": {APIKeyEnv: "SHORT"}}}, "shorter than 8"},
		"a broken key":  {eval.Config{Models: map[string]*eval.Model{"openai": {APIKeyEnv: "LINES"}}}, "LINES does not hold a key"},
		"no header":     {eval.Config{Models: map[string]*eval.Model{"openai": {Headers: map[string]string{"X": "${NONE}"}}}}, "NONE"},
		"a line break":  {eval.Config{Models: map[string]*eval.Model{"openai": {Headers: map[string]string{"X": "${LINES}"}}}}, "line break"},
		"cost, implied": {eval.Config{Executor: "codex", Model: "m", ModelLimits: eval.ModelLimits{Cost: 1}}, `needs the price of the model "m"`},
		"no such file":  {eval.Config{Models: map[string]*eval.Model{"s": {Script: "none.yaml"}}}, "no such file or directory; correct the path"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := planModels(evalOf(filepath.Join(dir, "eval.yaml"), test.config), choices(env))
			if err == nil || !strings.Contains(err.Error(), test.says) {
				t.Errorf("%v, want %q", err, test.says)
			}
		})
	}
	m, err := planModels(&eval.Eval{Path: filepath.Join(dir, "eval.yaml"), Config: eval.Config{Models: map[string]*eval.Model{"s": {Script: "script.yaml"}}}}, choices(env))
	if err != nil || m.Providers[0].Access.File != filepath.Join(dir, "script.yaml") {
		t.Errorf("%+v, %v", m, err)
	}
}

// Executor llm accepts models that speak chat completions, and names the remedy for others.
func TestModelsForLLM(t *testing.T) {
	models := func(kind, model, script string) *Models {
		return &Models{Provider: "p", Model: model, Providers: []Provider{{Name: "o"}, {Name: "p", Kind: kind, Script: script, APIKeyEnv: "SOME_KEY"}}}
	}
	for _, test := range []struct {
		models *Models
		model  string
		says   string
	}{
		{models(eval.KindOpenAI, "m", ""), "m", ""},
		{models(eval.KindAzure, "m", ""), "m", ""},
		{models(eval.KindOpenAI, "", "turns.yaml"), scriptedModel, ""},
		{models(eval.KindOpenAI, "", ""), "", "executor llm needs config.model"},
		{models(eval.KindAnthropic, "m", ""), "", "base_url: https://api.anthropic.com/v1 and api_key_env: SOME_KEY"},
		{models(eval.KindGoogle, "m", ""), "", "base_url: https://generativelanguage.googleapis.com/v1beta/openai"},
		{nil, "", "add a provider to config.models"},
	} {
		err := test.models.forLLM("llm")
		if (test.says == "") != (err == nil) || err != nil && !strings.Contains(err.Error(), test.says) || err == nil && test.models.Model != test.model {
			t.Errorf("%+v: %v, want %q", test.models, err, test.says)
		}
		if err := test.models.forLLM("command"); err != nil {
			t.Error(err)
		}
	}
}
