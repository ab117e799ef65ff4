package evidence

import (
	"encoding/json"
	"errors"
	"net/netip"
	"net/url"
	"slices"
	"strings"

	"github.com/waza-isolate/waza/sandbox/observe"
)

// ProgramAsk asks for a program of a grader's: a command, or assertions that a script
// of ours evaluates in a language.
type ProgramAsk struct {
	Image      string            `json:"image,omitempty"` // empty for the plan's default
	Command    string            `json:"command,omitempty"`
	Args       []string          `json:"args,omitempty"`
	Files      map[string]string `json:"files,omitempty"` // for the program's directory: path there to path beside the eval
	Language   string            `json:"language,omitempty"`
	Assertions []string          `json:"assertions,omitempty"`
	Seconds    int               `json:"timeout_seconds"`
}

// ProgramAnswer is what came of a program.
type ProgramAnswer struct {
	Image    string   `json:"image,omitempty"`       // that it ran in; empty where it ran in none
	Unfound  string   `json:"not_started,omitempty"` // why it could not be started
	ExitCode *int     `json:"exit_code,omitempty"`   // where it exited
	Signal   string   `json:"signal,omitempty"`      // that ended it, such as SIGKILL
	TimedOut bool     `json:"timed_out,omitempty"`
	Breaches []Breach `json:"breaches,omitempty"` // limits that its container ran into
	Broke    string   `json:"broke,omitempty"`    // how it ended its container, and itself with it
	Stdout   Output   `json:"stdout"`
	Stderr   Output   `json:"stderr"`
}

// Breach is a limit that a container ran into, as [observe.Breach] has it.
type Breach struct {
	Kind string `json:"kind"`
	What string `json:"what"` // as a sentence goes on that names the container
}

// OutOfMemory reports whether the kernel ended something of the program for want of
// memory.
func (a ProgramAnswer) OutOfMemory() bool {
	return slices.ContainsFunc(a.Breaches, func(b Breach) bool { return b.Kind == observe.OOM })
}

// Output is the beginning of what a program wrote.
type Output struct {
	Text string `json:"text"`
	Cut  int64  `json:"cut,omitempty"` // bytes behind it that are not kept
}

// CallAsk asks for a tool call that the runner makes.
type CallAsk struct {
	Number    int             `json:"number"` // among the grader's, from 1
	Server    string          `json:"server"`
	Tool      string          `json:"tool"`
	Arguments json.RawMessage `json:"arguments,omitempty"`
	Seconds   int             `json:"timeout_seconds"`
}

// CallAnswer is what came of a [CallAsk].
type CallAnswer struct {
	Process string          `json:"process"` // that was asked: last, new or server
	Outcome Outcome         `json:"outcome"`
	Result  json.RawMessage `json:"result,omitempty"`
	Error   json.RawMessage `json:"error,omitempty"`
	Message string          `json:"message,omitempty"` // why there is neither
}

// Processes that a [CallAsk] is put to.
const (
	ProcessLast   = "last"   // that of the last session that the agent opened
	ProcessNew    = "new"    // one of its own: the agent opened no session
	ProcessServer = "server" // the one that the server is, in a session of the runner's
)

// FileAsk asks for what stands at an absolute path of a server's container.
type FileAsk struct {
	Server  string `json:"server"`
	Path    string `json:"path"`
	Content bool   `json:"content,omitempty"` // what is in it too
}

// FileAnswer is what stands there.
type FileAnswer struct {
	Kind    string  `json:"kind"`         // as internal/tree has it, or empty for nothing
	At      string  `json:"at,omitempty"` // where it stands, which is on the way to the path where that leads through a link
	Size    int64   `json:"size,omitempty"`
	Content *string `json:"content,omitempty"` // nil where it was not asked for, or Unread
	Unread  string  `json:"unread,omitempty"`  // why the content is not there
}

// Observed is one line of observed.jsonl: what the programs of one container did besides
// answering, as its guest and the runner saw it. A guest is in its container's hands, so each
// line is the container's word where the runner did not see it itself.
type Observed struct {
	Container string `json:"container"` // "agent", a server's name, or SERVER/SERVICE
	observe.Seen
}

// What is seen of a container.
type (
	FileChange = observe.FileChange
	Program    = observe.Program
	Connection = observe.Connection
)

// Egress is the data of an event of kind egress: one connection that a container asked to have
// carried out of its sandbox.
type Egress struct {
	Name    string `json:"name"` // of the host that was asked for
	Port    int    `json:"port"`
	By      string `json:"by"` // tls, http or connect: where the name was read
	Allowed bool   `json:"allowed"`
	Address string `json:"address,omitempty"` // that was dialled
	Why     string `json:"why,omitempty"`     // it was not carried, or ended early
	Out     int64  `json:"bytes_out"`
	In      int64  `json:"bytes_in"`
	MS      int64  `json:"ms"`
}

// CheckpointsDir holds a directory for each checkpoint, by the number of its turn: the trial
// as it stood then, laid out like a trial, with the checkpoint's graders.
const CheckpointsDir = "checkpoints"

// Checkpoint is that a trial was graded between two turns of its conversation.
type Checkpoint struct {
	AfterTurn int  `json:"after_turn"`        // from 1, the prompt's own
	Stopped   bool `json:"stopped,omitempty"` // it did not pass, and the conversation ended there
}

// CheckpointVerdicts is what a checkpoint came to.
type CheckpointVerdicts struct {
	Checkpoint
	Verdicts
}

// Judge is the model that graders ask, and how it is reached. Its key is on no record:
// the runner reads it from the variable that APIKeyEnv names.
type Judge struct {
	BaseURL        string   `json:"base_url"`
	APIKeyEnv      string   `json:"api_key_env,omitempty"`      // empty where the endpoint takes no key
	Model          string   `json:"model,omitempty"`            // for graders that name none
	Override       string   `json:"judge_model,omitempty"`      // in place of every other
	TimeoutSeconds int      `json:"timeout_seconds"`            // for one answer
	MaxTokens      int      `json:"max_tokens,omitempty"`       // of one answer; 0 leaves it to the endpoint
	Temperature    *float64 `json:"temperature,omitempty"`      // nil leaves it to the endpoint
	Effort         string   `json:"reasoning_effort,omitempty"` // for graders that name none; empty leaves it to the endpoint
}

// Endpoint reads the base URL: over https, or over http to this machine, and without
// credentials. Errors go on behind the name of what holds the URL.
func (j Judge) Endpoint() (*url.URL, error) {
	u, err := url.Parse(j.BaseURL)
	switch {
	case err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https":
		return nil, errors.New("must be a URL that begins with https:// or, on this machine, http://")
	case u.User != nil:
		return nil, errors.New("must not hold credentials; name the variable that holds the key in api_key_env")
	case u.RawQuery != "" || u.ForceQuery || u.Fragment != "":
		return nil, errors.New("must not have a query or a fragment")
	case u.Scheme == "http" && !isLoopback(u.Hostname()):
		return nil, errors.New("must begin with https://: over http the key can be read on the way; only this machine (localhost, 127.0.0.1, ::1) is asked over http")
	}
	return u, nil
}

func isLoopback(host string) bool {
	addr, err := netip.ParseAddr(host)
	return strings.EqualFold(host, "localhost") || err == nil && addr.IsLoopback()
}

// JudgeAsk is the Ask of a step of kind [StepJudge]: one chat completion.
type JudgeAsk struct {
	Model       string          `json:"model"`
	Messages    []JudgeMessage  `json:"messages"`
	MaxTokens   int             `json:"max_tokens,omitempty"`
	Temperature *float64        `json:"temperature,omitempty"`
	Effort      string          `json:"reasoning_effort,omitempty"`
	Schema      json.RawMessage `json:"schema"` // of the JSON object that is to be answered
	Sample      int             `json:"sample"` // of the same question, from 1
}

// JudgeMessage is one message of a chat.
type JudgeMessage struct {
	Role    string `json:"role"` // system or user
	Content string `json:"content"`
}

// JudgeAnswer is the Answer of a step of kind [StepJudge]. What it says is a
// stranger's text.
type JudgeAnswer struct {
	Text         string `json:"text"`
	Refusal      string `json:"refusal,omitempty"`       // what the model said in place of an answer
	Model        string `json:"model,omitempty"`         // as the endpoint names it
	Finish       string `json:"finish_reason,omitempty"` // such as stop, or length where it was cut off
	InputTokens  int64  `json:"input_tokens"`            // 0 where the endpoint does not say
	OutputTokens int64  `json:"output_tokens"`           // likewise
}
