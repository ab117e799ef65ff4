package evidence

// EventFault is the kind of an event recorded when waza injects a fault. Where is the server or the provider;
// its data has the fault's kind under "fault" and, for a server, the tool under "tool".
const EventFault = "fault"

// FaultKind is a kind of fault that waza injects on purpose, as configured in the eval. Its consequences are
// neither the server's fault nor the agent's.
type FaultKind string

// Faults of servers. With those up to FaultKill, the server does not get the request; with the others it
// does, and executes it.
const (
	FaultToolError FaultKind = "tool_error"   // a result with isError instead of the server's result
	FaultError     FaultKind = "error"        // a JSON-RPC error
	FaultKill      FaultKind = "kill"         // the server's process is killed
	FaultDelay     FaultKind = "delay"        // the request is forwarded after a delay
	FaultDrop      FaultKind = "drop"         // the connection is closed without an answer
	FaultTruncate  FaultKind = "truncate"     // the connection is closed in the middle of the answer
	FaultInvalid   FaultKind = "invalid"      // the answer is not JSON
	FaultWrongID   FaultKind = "wrong_id"     // the answer has the ID of another request
	FaultSlow      FaultKind = "slow"         // the answer is sent a few bytes at a time
	FaultLate      FaultKind = "late"         // the answer is sent after the call's time limit
	FaultChanged   FaultKind = "list_changed" // before its answer, the server announces that its tools have changed
)

// ReachesServer reports whether the server gets the request despite the fault.
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
