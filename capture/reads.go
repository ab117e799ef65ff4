package capture

import (
	"time"

	"github.com/waza-isolate/waza/evidence"
)

const (
	methodCallTool     = "tools/call"
	methodReadResource = "resources/read"
	methodGetPrompt    = "prompts/get"
)

// Kinds of reads.
const (
	ReadResource = "resource"
	ReadPrompt   = "prompt"
)

// Read is a request for a resource or a prompt.
type Read struct {
	Kind          string // ReadResource or ReadPrompt
	Server        string
	Conn          string
	Name          string // the resource's URI, or the prompt's name
	Outcome       evidence.Outcome
	Start, End    time.Time
	RequestFrame  int64
	ResponseFrame int64 // 0 is none
	Rounds        int   // of input, as calls have them
}

func (k *call) read() Read {
	kind := ReadResource
	if k.method == methodGetPrompt {
		kind = ReadPrompt
	}
	return Read{
		Kind: kind, Server: k.Server, Conn: k.Conn, Name: k.Tool, Outcome: k.Outcome,
		Start: k.Start, End: k.End, RequestFrame: k.RequestFrame, ResponseFrame: k.ResponseFrame, Rounds: k.Rounds,
	}
}

// nameKey is the parameter that says what a request is for.
func nameKey(method string) string {
	if method == methodReadResource {
		return "uri"
	}
	return "name"
}
