package runner

import (
	"errors"
	"fmt"

	"github.com/waza-isolate/waza/agents"
	"github.com/waza-isolate/waza/agents/llm"
	"github.com/waza-isolate/waza/eval"
)

// settingsOf is how the loop of executor llm goes in an eval.
func settingsOf(e *eval.Eval) *llm.Settings {
	settings := new(llm.Settings)
	if e.Config.LLM != nil {
		*settings = llm.Settings(*e.Config.LLM)
	}
	return settings
}

// scriptedModel is what the loop asks for where a script answers to any name.
const scriptedModel = "scripted"

// forLLM holds an eval's models to what executor llm can ask: a model that has a name, of
// a provider that speaks chat completions. Other executors may have any.
func (m *Models) forLLM(executor string) error {
	if executor != agents.LLM {
		return nil
	}
	if m == nil {
		return errors.New("executor llm needs a model: say in config.models where one is")
	}
	p := m.chosen()
	switch {
	case p.Kind == eval.KindAnthropic, p.Kind == eval.KindGoogle:
		return fmt.Errorf("executor llm speaks chat completions, and provider %s is of kind %s; give its OpenAI-compatible endpoint as a provider of its own, with kind: openai, base_url: %s and api_key_env: %s",
			p.Name, p.Kind, compatibleURL(p.Kind), p.APIKeyEnv)
	case m.Model == "" && p.Script == "":
		return errors.New("executor llm needs config.model: the name of a model, as its provider calls it")
	case m.Model == "":
		m.Model = scriptedModel
	}
	return nil
}

// compatibleURL is where the providers of a kind answer chat completions too, by their
// own documentation of that.
func compatibleURL(kind string) string {
	if kind == eval.KindGoogle {
		return "https://generativelanguage.googleapis.com/v1beta/openai"
	}
	return "https://api.anthropic.com/v1"
}
