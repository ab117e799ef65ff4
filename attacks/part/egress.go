package part

// Attacks of an agent that may reach the host Allowed.
const (
	EgressByAgent = "egress-by-agent"
	OtherSNI      = "egress-other-sni"
	OtherHost     = "egress-other-host"
	Allowed       = "api.example"
)
