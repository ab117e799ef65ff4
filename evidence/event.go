package evidence

import (
	"encoding/json"
	"time"

	"github.com/waza-isolate/waza/model/dialect"
	"github.com/waza-isolate/waza/sandbox/observe"
)

// Event is anything recorded that is not a frame.
type Event struct {
	Time    time.Time      `json:"t"`
	Kind    string         `json:"kind"`            // dns, health, limit, oom, pids, disk, mcp_config, stdout_noise, server_exit, service_exit, container_exit, gap, cancelled, undelivered, …
	Where   string         `json:"where,omitempty"` // "agent", a server's name, or SERVER/SERVICE
	Message string         `json:"message,omitempty"`
	Data    map[string]any `json:"data,omitempty"`
}

// EventHookCall is the kind of an event recorded when a hook calls a tool.
const EventHookCall = "hook_call"

// EventAnswer is the kind of an event recorded when a built-in agent gets an answer to a server's request.
// "unmet" in its data describes how the request violates its schema, if it does.
const EventAnswer = "answer"

// Egress is the data of an egress event: one connection that a container tried to open to a
// host outside of its sandbox.
type Egress struct {
	Name    string `json:"name"` // of the requested host
	Port    int    `json:"port"`
	By      string `json:"by"` // source of the name: tls, http or connect
	Allowed bool   `json:"allowed"`
	Address string `json:"address,omitempty"` // address that was dialed
	Why     string `json:"why,omitempty"`     // why the connection was refused or ended early
	Out     int64  `json:"bytes_out"`
	In      int64  `json:"bytes_in"`
	MS      int64  `json:"ms"`
}

// Observed is one line of observed.jsonl: what the programs of one container did, as
// reported by its guest and the runner. Programs in the container may have taken over the
// guest, so only what the runner observed itself is certain.
type Observed struct {
	Container string `json:"container"` // "agent", a server's name, or SERVER/SERVICE
	observe.Seen
}

// Observations of a container.
type (
	FileChange = observe.FileChange
	Program    = observe.Program
	Connection = observe.Connection
)

// Types of transcript events that the code refers to.
const (
	AssistantMessage = "assistant.message" // what the agent said
	AssistantUsage   = "assistant.usage"   // tokens that models used
	UserMessage      = "user.message"      // what the agent was asked
)

// TranscriptEvent is one line of transcript.jsonl in waza's event format: what the agent
// reports that it did.
type TranscriptEvent struct {
	Type       string          `json:"type"` // user.message, assistant.message, assistant.usage, tool.execution_start, tool.execution_complete
	Content    string          `json:"content,omitempty"`
	Message    string          `json:"message,omitempty"`
	ToolCallID string          `json:"tool_call_id,omitempty"`
	ToolName   string          `json:"tool_name,omitempty"`
	Arguments  json.RawMessage `json:"arguments,omitempty"`
	Success    *bool           `json:"success,omitempty"`
	ToolResult json.RawMessage `json:"tool_result,omitempty"`
	Usage      *dialect.Usage  `json:"usage,omitempty"`

	// Marks is like Marks of a [Call], with secrets in ToolName under "". It is set by
	// [Dir.MarkedTranscript].
	Marks map[string][]string `json:"-"`
}
