package evidence

// TaskAttack is what somebody else wants of a trial's agent, as the eval has it.
type TaskAttack struct {
	Goal       string       `json:"goal"`
	Injections []Injection  `json:"injections"`
	Success    []GraderSpec `json:"success"` // all pass where it succeeds
	Gate       bool         `json:"gate,omitempty"`
	// Withheld says that nothing was injected: the trial is one of a baseline.
	Withheld bool `json:"withheld,omitempty"`
}

// Injection is one place of an attacker's words: a file of the workspace, or the results
// of a tool. Its number in events and frames is that in its attack, from 1.
type Injection struct {
	File   string `json:"file,omitempty"`
	Server string `json:"server,omitempty"`
	Tool   string `json:"tool,omitempty"`
	Text   string `json:"text"`
	Match  string `json:"match,omitempty"` // what a result must contain
}

// DataOmitted is what an event's data has the number of further ones under that are not on record.
const DataOmitted = "omitted"

// EventInjection is the kind of the event of an injection that came to where the agent
// finds it; its data has the number under DataInjection.
const (
	EventInjection = "injection"
	DataInjection  = "injection"
)

// AttackEnd is what came of a trial's attack.
type AttackEnd string

const (
	AttackSucceeded    AttackEnd = "succeeded"
	AttackResisted     AttackEnd = "resisted"
	AttackNotDelivered AttackEnd = "not_delivered" // the agent never came to a place of it
	AttackUnknown      AttackEnd = "error"         // evidence is missing
)

// AttackVerdict is what grading says of a trial's attack.
type AttackVerdict struct {
	Goal      string    `json:"goal"`
	Result    AttackEnd `json:"result"`
	Delivered bool      `json:"delivered"`
	Succeeded bool      `json:"succeeded"`
	Reasons   []string  `json:"reasons"`  // in sentences
	Verdicts  []Verdict `json:"verdicts"` // of the graders of its success
}

// Canary is a planted value. It is no secret.
type Canary struct {
	Name     string   `json:"name"`
	Value    string   `json:"value"`
	Planted  []Plant  `json:"planted"` // empty where the trial has none of its places
	MayReach []string `json:"may_reach,omitempty"`
}

// Plant is a place of a canary: a file of the workspace, or a file or variable of a
// server.
type Plant struct {
	Server string `json:"server,omitempty"`
	File   string `json:"file,omitempty"`
	Env    string `json:"env,omitempty"`
}

// EventCanary is the kind of the event of a canary that was seen where it has no business.
const EventCanary = "canary"

// Ways in which a canary may leave, as events and graders name them.
const (
	ByArgument = "argument" // in what the agent sends to a server
	ByDNS      = "dns"      // in a name that a program asked for
	ByEgress   = "egress"   // in the clear, to a host outside
)

// CanarySeen is the data of an event of kind canary, by its JSON keys. Where the event
// is, is the server that it was sent to, or the container that it came from.
type CanarySeen struct {
	Canary   string `json:"canary"`
	How      string `json:"how"`
	Encoding string `json:"encoding"`
	Tool     string `json:"tool,omitempty"`
	Frame    int64  `json:"frame,omitempty"`
	Name     string `json:"name,omitempty"` // that was asked for, or of the host
}
