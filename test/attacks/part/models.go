package part

// Attacks on the model gateway. Those that spend have a trial each, with a limit of [ModelTokens].
const (
	ModelPart     = "model-other-part"
	ModelOverride = "model-override"
	ModelKeyName  = "model-key-in-name"
	ModelLeft     = "model-left"
	ModelLater    = "model-later"
	ModelSeveral  = "model-several"
	ModelAtOnce   = "model-at-once"
)

// ModelProvider is the hostile provider of models, ModelKeyEnv the runner's environment variable with
// its key, and KeyHeader what the names of headers begin with that it makes of the key.
const (
	ModelProvider = "away"
	ModelKeyEnv   = "ATTACKED_KEY"
	KeyHeader     = "X-Key-"
)

// ModelTokens is the limit of tokens of a trial, and AskedTokens what each request asks for, of which
// an attack makes AskedOften. More than SpentUnseen tokens are beyond the limit by more than an answer.
const (
	ModelTokens = 1000
	AskedTokens = 500
	AskedOften  = 20
	SpentUnseen = ModelTokens + AskedTokens
)
