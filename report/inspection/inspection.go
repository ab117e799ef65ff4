// Package inspection renders the results of `waza inspect` as a document and for a
// terminal.
//
// It is pure and evaluates nothing: whether to trust a server is for the user to decide.
// Untrusted text is printed fully visible and cannot control the terminal.
package inspection

import (
	"encoding/json"
	"slices"
	"time"

	"github.com/waza-isolate/waza/evidence"
	"github.com/waza-isolate/waza/internal/jsontext"
	"github.com/waza-isolate/waza/mcp/catalog"
	"github.com/waza-isolate/waza/mcp/finding"
	"github.com/waza-isolate/waza/mcpconfig"
	"github.com/waza-isolate/waza/results"
)

// File is the name of the document in its directory.
const File = "inspection.json"

// Version is the version of the document.
const Version = 1

// Report is the document.
type Report struct {
	Version     int               `json:"version"`
	ID          string            `json:"id"`
	Waza        string            `json:"waza"`
	Source      string            `json:"source"` // where the servers' configuration comes from
	Started     time.Time         `json:"started"`
	Ended       time.Time         `json:"ended"`
	Engine      map[string]string `json:"engine,omitempty"`
	Certificate *Certificate      `json:"certificate,omitempty"` // nil if nothing ran in a sandbox
	Servers     []Server          `json:"servers"`
}

// Document returns the report as indented JSON. JSON from servers stays on one line, so that it is about as
// large as it was when sent.
func (r Report) Document() ([]byte, error) {
	compact, err := evidence.Marshal(r)
	if err != nil {
		return nil, err
	}
	return append(jsontext.Indent(compact, "capabilities", "raw", "answer"), '\n'), nil
}

// Certificate summarizes the attacks on a sandbox of the kind that the servers ran in.
type Certificate struct {
	At       time.Time `json:"at"`
	Held     int       `json:"held"`
	GotOut   []string  `json:"got_out,omitempty"`
	NotTried []string  `json:"not_tried,omitempty"`
}

// CertificateOf summarizes c, which may be nil.
func CertificateOf(c *evidence.Certificate) *Certificate {
	if c == nil {
		return nil
	}
	names := func(result evidence.AttackResult) (all []string) {
		for _, a := range c.With(result) {
			all = append(all, a.Name)
		}
		return all
	}
	return &Certificate{
		At: c.At, Held: len(names(evidence.AttackHeld)), GotOut: names(evidence.AttackGotOut), NotTried: names(evidence.AttackNotTried),
	}
}

// Server is the result for one server.
type Server struct {
	Name      string           `json:"name"`
	Config    mcpconfig.Server `json:"config"` // as declared
	Transport string           `json:"transport"`
	Remote    bool             `json:"remote,omitempty"` // it ran elsewhere, so nothing was isolated
	Image     *Image           `json:"image,omitempty"`
	Package   *Package         `json:"package,omitempty"`
	// Evidence is the directory with frames, events and stderr, relative to the document.
	Evidence string `json:"evidence"`

	// Failed is why the server could not be inspected; it then has no lists.
	Failed  string          `json:"failed,omitempty"`
	Catalog catalog.Catalog `json:"catalog"`
	// Tokens is the estimated number of tokens that the tools take in a model's context, as
	// in [results.Listed].
	Tokens   int                  `json:"tokens_estimate"`
	Findings finding.Findings     `json:"findings"`
	Pin      *PinCheck            `json:"pin,omitempty"`     // nil if the lock has none
	Drift    []catalog.Difference `json:"drift,omitempty"`   // changes between the first and the last list
	Asked    map[string]int       `json:"asked,omitempty"`   // number of requests from the server to its client, by method; all were rejected
	Answers  []Answered           `json:"answers,omitempty"` // responses to exercises
	Ended    string               `json:"ended,omitempty"`   // how it ended before it was told to
	Activity
	Guarantees *evidence.Guarantees `json:"guarantees,omitempty"`
}

// Activity is what a server did in addition to responding.
type Activity struct {
	Did    *results.Activity  `json:"activity,omitempty"` // nil if nothing could be observed
	Used   *evidence.Resource `json:"used,omitempty"`
	Ends   []string           `json:"ends,omitempty"`
	Stderr string             `json:"stderr_tail,omitempty"`
	Noise  int                `json:"stdout_noise,omitempty"` // lines on stdout that are not messages
}

// Image is the image that a server ran in.
type Image struct {
	Ref     string   `json:"ref"`
	ID      string   `json:"id"`
	Digests []string `json:"digests,omitempty"` // none if it was built locally
}

// Package is the package that a server was installed from.
type Package struct {
	Request string `json:"request"` // as in the configuration
	Version string `json:"version"`
	Locked  bool   `json:"locked"` // it was in waza.lock before
}

// PinCheck is the comparison of a server's catalog with its pin.
type PinCheck struct {
	Lock        string               `json:"lock"`
	Differences []catalog.Difference `json:"differences,omitempty"`
}

// Ways of exercising a server.
const (
	Call = "call" // a tool
	Read = "read" // a resource
	Get  = "get"  // a prompt
)

// Exercise is a request to make to a server.
type Exercise struct {
	What      string          `json:"what"`
	Name      string          `json:"name"` // tool or prompt name, or resource URI
	Arguments json.RawMessage `json:"arguments,omitempty"`
	Anew      bool            `json:"-"` // in a new container, like the exercises that follow it
}

// Answered is the result of an exercise.
type Answered struct {
	Exercise
	Outcome  evidence.Outcome `json:"outcome"`
	Answer   json.RawMessage  `json:"answer,omitempty"` // result or error, as sent by the server
	Message  string           `json:"message,omitempty"`
	Findings finding.Findings `json:"findings"`
}

// Find searches the servers' texts for findings, including names of other servers' tools.
func (r *Report) Find() {
	for i := range r.Servers {
		var others []string
		for j, other := range r.Servers {
			if j != i {
				others = append(others, other.tools()...)
			}
		}
		r.Servers[i].Findings = finding.InCatalog(r.Servers[i].Catalog, others)
	}
}

// tools returns the names of the tools that a server lists.
func (s Server) tools() (names []string) {
	for _, l := range s.Catalog.Lists {
		if l.Kind == catalog.Tools {
			for _, e := range l.Entries {
				names = append(names, e.Key)
			}
		}
	}
	return slices.Compact(slices.Sorted(slices.Values(names)))
}
