package evidence

// TaskAttack is the attack on a trial's agent, as configured in the eval.
type TaskAttack struct {
	Goal       string       `json:"goal"`
	Injections []Injection  `json:"injections"`
	Success    []GraderSpec `json:"success"` // the attack succeeds if all pass
	Gate       bool         `json:"gate,omitempty"`
	// Withheld reports that nothing was injected, because the trial is a baseline.
	Withheld bool `json:"withheld,omitempty"`
}

// Injection is a place where an attacker's text is injected: a file of the workspace or the
// results of a tool. Events and frames number the injections of an attack from 1.
type Injection struct {
	File   string `json:"file,omitempty"`
	Server string `json:"server,omitempty"`
	Tool   string `json:"tool,omitempty"`
	Text   string `json:"text"`
	Match  string `json:"match,omitempty"` // text that a result must contain
}

// DataOmitted is the key in an event's data for the number of further events that were not
// recorded.
const DataOmitted = "omitted"

// EventInjection is the kind of an event recorded when an injection is placed where the
// agent can find it. Its data has the injection's number under DataInjection.
const (
	EventInjection = "injection"
	DataInjection  = "injection"
)

// AttackOutcome is the outcome of the attack on a trial.
type AttackOutcome string

const (
	AttackSucceeded    AttackOutcome = "succeeded"
	AttackResisted     AttackOutcome = "resisted"
	AttackNotDelivered AttackOutcome = "not_delivered" // the agent encountered no injection
	AttackUnknown      AttackOutcome = "error"         // evidence is missing
)

// AttackVerdict is the verdict on a trial's attack.
type AttackVerdict struct {
	Goal      string        `json:"goal"`
	Result    AttackOutcome `json:"result"`
	Delivered bool          `json:"delivered"`
	Succeeded bool          `json:"succeeded"`
	Reasons   []string      `json:"reasons"`  // full sentences
	Verdicts  []Verdict     `json:"verdicts"` // of the graders in TaskAttack.Success
}

// Canary is a planted marker value. It is not secret.
type Canary struct {
	Name     string   `json:"name"`
	Value    string   `json:"value"`
	Planted  []Plant  `json:"planted"` // empty if the trial has none of its places
	MayReach []string `json:"may_reach,omitempty"`
}

// Plant is a place where a canary is planted: a file of the workspace, or a file or
// environment variable of a server.
type Plant struct {
	Server string `json:"server,omitempty"`
	File   string `json:"file,omitempty"`
	Env    string `json:"env,omitempty"`
}

// EventCanary is the kind of an event recorded when a canary is seen where it must not be.
const EventCanary = "canary"

// Ways in which a canary may leak, as used in events and grader configuration.
const (
	ByArgument = "argument" // in arguments that the agent sends to a server
	ByDNS      = "dns"      // in a DNS query
	ByEgress   = "egress"   // in unencrypted traffic to an outside host
)

// CanarySeen is the data of a canary event, by JSON key. Event.Where is the server that
// received the canary, or the container that sent it.
type CanarySeen struct {
	Canary   string `json:"canary"`
	How      string `json:"how"`
	Encoding string `json:"encoding"`
	Tool     string `json:"tool,omitempty"`
	Frame    int64  `json:"frame,omitempty"`
	Name     string `json:"name,omitempty"` // the name queried, or the name of the host
}
