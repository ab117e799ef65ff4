package part

// Attacks by an agent that may access the host Allowed.
const (
	EgressByAgent = "egress-by-agent"
	OtherSNI      = "egress-other-sni"
	OtherHost     = "egress-other-host"
	Allowed       = "api.example"
)
