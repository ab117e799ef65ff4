package evidence

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

// EventCanary is the kind of an event that tells of a canary which was seen where it has
// no business.
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
