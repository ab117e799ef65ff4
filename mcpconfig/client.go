package mcpconfig

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/waza-isolate/waza/internal/strictyaml"
)

// ClientFile is what the MCP configuration file of a client (an editor, an agent)
// comes to: servers as an eval has them.
type ClientFile struct {
	Name    string             // as given to [ReadClient]
	SHA256  string             // of the file, in hex
	Servers map[string]*Server // by name; none is nil
	Notes   []Note             // in the order of the file
	// Secrets are values that the file spells out under a name that says they are
	// secret: whoever writes anything about the servers must redact them.
	Secrets []string

	doc    *strictyaml.Document
	places map[string]strictyaml.Path // of each server
}

// Note is something that a client's file says and that was left out, or was read
// in a way its author should know.
type Note struct {
	Position strictyaml.Position
	Text     string // one sentence, without values
}

// ReadClient reads the MCP configuration file of Claude Code and Desktop, Cursor,
// Copilot CLI, VS Code, Gemini CLI, OpenCode, Windsurf, Cline, Roo Code or Zed.
// Errors call the file name; they are [strictyaml.Errors]. The servers' own rules,
// those of [Validate], are not checked.
//
// What steers nothing but a client's user interface or its questions to the user
// is left out with a note. Every other key acts or is an error.
func ReadClient(name string, data []byte) (*ClientFile, error) {
	if isTOML(data) {
		return nil, strictyaml.Errors{{File: name, Class: strictyaml.ErrInvalid, Message: tomlHint}}
	}
	doc, err := strictyaml.ParseJSON(name, data)
	if err != nil {
		return nil, err
	}
	sum := sha256.Sum256(data)
	r := &clientReader{
		ClientFile: &ClientFile{
			Name: name, SHA256: hex.EncodeToString(sum[:]), Servers: map[string]*Server{},
			doc: doc, places: map[string]strictyaml.Path{},
		},
		inputs: map[string]clientInput{}, variables: map[string]string{},
	}
	if r.find() {
		r.readInputs()
		r.readServers()
	}
	if err := doc.Err(); err != nil {
		return nil, err
	}
	slices.SortStableFunc(r.Notes, func(a, b Note) int {
		return cmp.Or(cmp.Compare(a.Position.Line, b.Position.Line), cmp.Compare(a.Position.Column, b.Position.Column))
	})
	r.Notes = slices.Compact(r.Notes)
	return r.ClientFile, nil
}

// Document is the file, to report problems at their places.
func (f *ClientFile) Document() *strictyaml.Document { return f.doc }

// Place leads to what the file has for a server, its field, or a key of that
// field: as in [Error], and both may be empty.
func (f *ClientFile) Place(server, field, key string) strictyaml.Path {
	at := f.places[server]
	if field == "" {
		return at
	}
	if service, inner, nested := strings.Cut(field, "."); nested { // of a service
		at = below(at, service)
		for name := range strings.SplitSeq(inner, ".") {
			at = below(at, name)
		}
		if f.doc.Has(below(at, step(inner, inner, key))...) {
			at = below(at, step(inner, inner, key))
		}
		return at
	}
	for _, name := range append([]string{field}, otherNames[field]...) {
		if !f.doc.Has(below(at, name)...) {
			continue
		}
		at = below(at, name)
		if inner := below(at, step(field, name, key)); f.doc.Has(inner...) {
			at = inner
		}
		break
	}
	return at
}

// step leads from a field of a file, called name there, to a key of it: to an
// item where the key is an index. A command that is a list has args from its
// second item on.
func step(field, name, key string) any {
	index, err := strconv.Atoi(key)
	switch {
	case err != nil || field != "args" && field != "tools":
		return key
	case name != field && field == "args":
		return index + 1
	}
	return index
}

func below(at strictyaml.Path, steps ...any) strictyaml.Path {
	return append(slices.Clone(at), steps...)
}

// clientReader fills a ClientFile.
type clientReader struct {
	*ClientFile
	at        strictyaml.Path // of the servers
	inputs    map[string]clientInput
	variables map[string]string // environment variable → input it stands for
}

// openCode says whether the file is one of OpenCode's, whose variables and
// timeouts are unlike the others'.
func (r *clientReader) openCode() bool { return r.at[0] == "mcp" }

func (r *clientReader) note(at strictyaml.Path, format string, args ...any) {
	r.Notes = append(r.Notes, Note{r.doc.Key(at...), fmt.Sprintf(format, args...)})
}

// keys are the keys of the mapping at a place, in the order of the file.
func (r *clientReader) keys(at strictyaml.Path) []string {
	var values map[string]json.RawMessage
	r.doc.DecodeAt(&values, at...)
	return slices.SortedFunc(maps.Keys(values), func(a, b string) int {
		p, q := r.doc.Key(below(at, a)...), r.doc.Key(below(at, b)...)
		return cmp.Or(cmp.Compare(p.Line, q.Line), cmp.Compare(p.Column, q.Column))
	})
}

func (r *clientReader) readServers() {
	named := map[string]string{} // host name → name in the file
	for _, name := range r.keys(r.at) {
		at := below(r.at, name)
		if r.off(name, at) {
			continue
		}
		host, here := HostName(name), name
		if first, taken := named[host]; taken {
			r.doc.KeyProblemf(at, "servers %q and %q would both have the host name %s; rename one", first, name, host)
			continue
		}
		named[host] = name
		switch {
		case host == "":
			r.doc.KeyProblemf(at, "no host name can be made of the server name %q; rename it with letters and digits", name)
			continue
		case !namePattern.MatchString(name):
			here = host
			r.note(at, "server %q is named %s here, since names have letters, digits, - and _", name, here)
		}
		r.places[here] = at
		r.Servers[here] = r.server(here, at)
	}
	if len(r.Servers) == 0 && r.doc.Err() == nil {
		r.doc.Problemf(r.at, "%s holds no server that is enabled, so there is nothing to lay over the eval", r.at)
	}
}

// off says whether the file leaves a server out.
func (r *clientReader) off(name string, at strictyaml.Path) bool {
	for _, rule := range []struct {
		key string
		off bool
	}{{"disabled", true}, {"enabled", false}} {
		value := !rule.off
		if path := below(at, rule.key); r.doc.Has(path...) && r.doc.DecodeAt(&value, path...) && value == rule.off {
			r.note(at, "server %q is left out: %s is %t", name, rule.key, value)
			return true
		}
	}
	return r.filtered(name, at)
}

// filtered says whether Gemini CLI's lists of servers leave one out.
func (r *clientReader) filtered(name string, at strictyaml.Path) bool {
	for _, list := range []string{"allowed", "excluded"} {
		path := strictyaml.Path{"mcp", list}
		var names []string
		if r.at[0] != "mcpServers" || !r.doc.Has(path...) || !r.doc.DecodeAt(&names, path...) {
			continue
		}
		if slices.Contains(names, name) == (list == "excluded") {
			r.note(at, "server %q is left out by mcp.%s", name, list)
			return true
		}
	}
	return false
}
