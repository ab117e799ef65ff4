// Package inspection renders what `waza inspect` found out about servers, as a document
// and for a terminal.
//
// It is pure and judges nothing: whether to trust a server a person decides. What a
// server wrote is printed so that all of it is visible and nothing steers the terminal.
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
	Source      string            `json:"source"` // where the servers' configuration is from
	Started     time.Time         `json:"started"`
	Ended       time.Time         `json:"ended"`
	Engine      map[string]string `json:"engine,omitempty"`
	Certificate *Certificate      `json:"certificate,omitempty"` // nil where nothing ran in a sandbox
	Servers     []Server          `json:"servers"`
}

// Document returns the report as JSON, laid out. What servers wrote as JSON stays on one line
// each, so that it takes about as much room as it had on the wire.
func (r Report) Document() ([]byte, error) {
	compact, err := evidence.Marshal(r)
	if err != nil {
		return nil, err
	}
	return append(jsontext.Indent(compact, "capabilities", "raw", "answer"), '\n'), nil
}

// Certificate is what came of attacking a sandbox of the kind that servers were in.
type Certificate struct {
	At       time.Time `json:"at"`
	Held     int       `json:"held"`
	GotOut   []string  `json:"got_out,omitempty"`
	NotTried []string  `json:"not_tried,omitempty"`
}

// CertificateOf returns c in short; nil of nil.
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

// Server is what was found of one server.
type Server struct {
	Name      string           `json:"name"`
	Config    mcpconfig.Server `json:"config"` // as declared
	Transport string           `json:"transport"`
	Remote    bool             `json:"remote,omitempty"` // it was not run here: nothing of it was isolated
	Image     *Image           `json:"image,omitempty"`
	Package   *Package         `json:"package,omitempty"`
	// Evidence is where frames, events and stderr are, below the document's directory.
	Evidence string `json:"evidence"`

	// Failed is why the server could not be asked; then it offers nothing here.
	Failed string          `json:"failed,omitempty"`
	Offer  catalog.Catalog `json:"offer"`
	// Tokens are what tools take of a model's context, estimated as [results.Listed] does.
	Tokens  int                  `json:"tokens_estimate"`
	Marks   finding.Findings     `json:"marks"`
	Pin     *PinCheck            `json:"pin,omitempty"`     // nil where none is in the lock
	Drift   []catalog.Difference `json:"drift,omitempty"`   // between the first list and the last
	Asked   map[string]int       `json:"asked,omitempty"`   // what it asked of its client, by method; all was refused
	Answers []Answered           `json:"answers,omitempty"` // to what it was exercised with
	Ended   string               `json:"ended,omitempty"`   // how it ended before it was asked to
	Conduct
	Guarantees *evidence.Guarantees `json:"guarantees,omitempty"`
}

// Conduct is what a server did apart from answering.
type Conduct struct {
	Did    *results.Conduct   `json:"conduct,omitempty"` // nil where nothing could be watched
	Used   *evidence.Resource `json:"used,omitempty"`
	Ends   []string           `json:"ends,omitempty"`
	Stderr string             `json:"stderr_tail,omitempty"`
	Noise  int                `json:"stdout_noise,omitempty"` // lines of stdout that are no messages
}

// Image is the image that a server ran in.
type Image struct {
	Ref     string   `json:"ref"`
	ID      string   `json:"id"`
	Digests []string `json:"digests,omitempty"` // none of one that was built here
}

// Package is what a server was installed from.
type Package struct {
	Request string `json:"request"` // as the configuration has it
	Version string `json:"version"`
	Locked  bool   `json:"locked"` // waza.lock had it before
}

// PinCheck is how a server's offer is to what is pinned.
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

// Exercise is something that a server is asked to do.
type Exercise struct {
	What      string          `json:"what"`
	Name      string          `json:"name"` // of the tool or prompt, or the resource's URI
	Arguments json.RawMessage `json:"arguments,omitempty"`
}

// Answered is what came of an exercise.
type Answered struct {
	Exercise
	Outcome evidence.Outcome `json:"outcome"`
	Answer  json.RawMessage  `json:"answer,omitempty"` // a result or an error, as the server wrote it
	Message string           `json:"message,omitempty"`
	Marks   finding.Findings `json:"marks"`
}

// Mark marks places in what each server says. A place that names a tool of
// another server in the report is marked too.
func (r *Report) Mark() {
	for i := range r.Servers {
		var others []string
		for j, other := range r.Servers {
			if j != i {
				others = append(others, other.tools()...)
			}
		}
		r.Servers[i].Marks = finding.InCatalog(r.Servers[i].Offer, others)
	}
}

// tools returns the names of the tools that a server lists.
func (s Server) tools() (names []string) {
	for _, l := range s.Offer.Lists {
		if l.Kind == catalog.Tools {
			for _, e := range l.Entries {
				names = append(names, e.Key)
			}
		}
	}
	return slices.Compact(slices.Sorted(slices.Values(names)))
}
