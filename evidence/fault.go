package evidence

// EventFault is the kind of an event recorded when waza makes a fault. Where is the server or the provider;
// its data has the fault's kind under "fault", and of a server's the tool under "tool".
const EventFault = "fault"

// FaultKind is a kind of fault that waza makes on purpose, as an eval's faults say. What follows from it is
// neither the server's fault nor the agent's.
type FaultKind string

// Faults of servers. Up to FaultKill the server does not get the request; of the others it does, and
// carries it out.
const (
	FaultToolError FaultKind = "tool_error"   // a result with isError, in place of the server's
	FaultError     FaultKind = "error"        // a JSON-RPC error
	FaultKill      FaultKind = "kill"         // the server's process is killed
	FaultDelay     FaultKind = "delay"        // the request is kept back, and then passed on
	FaultDrop      FaultKind = "drop"         // the connection ends without an answer
	FaultTruncate  FaultKind = "truncate"     // the connection ends within the answer
	FaultInvalid   FaultKind = "invalid"      // the answer is not JSON
	FaultWrongID   FaultKind = "wrong_id"     // the answer has another request's id
	FaultSlow      FaultKind = "slow"         // the answer comes a few bytes at a time
	FaultLate      FaultKind = "late"         // the answer comes after the time that the call may take
	FaultChanged   FaultKind = "list_changed" // the server says that its tools have changed, before its answer
)

// ReachesServer reports whether the server gets the request in spite of the fault.
func (k FaultKind) ReachesServer() bool {
	switch k {
	case FaultToolError, FaultError, FaultKill:
		return false
	}
	return true
}

// Faults of models.
const (
	FaultRateLimit   FaultKind = "rate_limit"   // status 429 with retry-after
	FaultServerError FaultKind = "server_error" // status 500
	FaultStall       FaultKind = "stall"        // a stream stops and stays open
	FaultCut         FaultKind = "cut"          // a stream ends early
)
