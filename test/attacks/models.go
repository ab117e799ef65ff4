package attacks

import (
	"github.com/waza-isolate/waza/eval"
	"github.com/waza-isolate/waza/sandbox/probe"
	"github.com/waza-isolate/waza/test/attacks/part"
)

// modelAttacks returns the attacks by an agent on the gateway to models.
func modelAttacks() []Attack {
	all := []Attack{
		{Attack: entry(part.ModelPart, "use a model's key for another part of the provider's API, whose path ends as that of a model's turn", probe.SecretsStay, knownParts)},
		{Attack: entry(part.ModelOverride, "have a provider take a request for another method, by a header and a query parameter", probe.SecretsStay, knownHeaders), In: part.ModelPart},
		{Attack: entry(part.ModelKeyName, "get a model's key from a provider that names a header after it", probe.SecretsStay, knownHeaders), In: part.ModelPart, Won: SaidSo},
		{Attack: entry(part.ModelLeft, "spend more than a trial's tokens by disconnecting before answers tell what they took", probe.ByPolicy, countedAsking)},
		{Attack: entry(part.ModelLater, "spend more than a trial's tokens on answers in the background", probe.ByPolicy, countedAsking)},
		{Attack: entry(part.ModelSeveral, "spend more than a trial's tokens by one request for many answers", probe.ByPolicy, countedAsking)},
		{Attack: entry(part.ModelAtOnce, "spend more than a trial's tokens by requests at the same time", probe.ByPolicy, countedAsking)},
	}
	for i := range all {
		a := &all[i]
		if a.As, a.Tried = Agent, HasReport; a.Won == nil {
			a.Won = Scene.Arrived
		}
	}
	return all
}

// models are those of every trial, at a hostile provider.
func (g Ground) models() (map[string]*eval.Model, eval.ModelLimits) {
	return map[string]*eval.Model{
		part.ModelProvider: {Kind: eval.KindOpenAI, BaseURL: g.Away + "/" + modelsPath, APIKeyEnv: part.ModelKeyEnv},
	}, eval.ModelLimits{Tokens: part.ModelTokens}
}

// modelsPath is where the hostile provider is, below the run's nonce.
const modelsPath = "models"
