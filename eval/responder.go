package eval

// Responder is a model that answers the agent in its user's place.
type Responder struct {
	_ struct{} `unknown:"warn"`

	Model        string `json:"model,omitempty" jsonschema:"model to ask; default that of config.judge, else the agent's"`
	Instructions string `json:"instructions" jsonschema:"who the user is, what they want, and when not to answer"`
	MaxFollowups int    `json:"max_followups" min:"1" max:"100" jsonschema:"replies after which the conversation ends"`
}
