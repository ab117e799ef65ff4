package mcpconfig

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/waza-isolate/waza/internal/strictyaml"
	"github.com/waza-isolate/waza/internal/text"
)

// ClientFile holds the servers of an MCP configuration file of a client, such as an editor or an agent,
// converted to the format of an eval.
type ClientFile struct {
	Name    string             // as given to [ReadClient]
	SHA256  string             // of the file, in hex
	Servers map[string]*Server // by name; values are not nil
	Notes   []Note             // in the order of the file
	// Secrets are the values in the file whose names indicate that they are secret. Callers must redact them.
	Secrets []string

	doc    *strictyaml.Document
	places map[string]strictyaml.Path // of each server
	// rewritten names the servers whose args differ from those in the file.
	rewritten map[string]bool
}

// Note describes a setting that was ignored, or interpreted in a way that the author should
// know.
type Note struct {
	Position strictyaml.Position
	Text     string // one sentence, without values
}

// ReadClient reads the MCP configuration file of Claude Code and Desktop, Cursor, Copilot CLI, VS Code,
// Gemini CLI, OpenCode, Windsurf, Cline, Roo Code or Zed. Errors are [strictyaml.Errors], and use name as the
// name of the file. ReadClient does not check the rules of [Validate].
//
// Settings that only concern a client's user interface or its questions to the user are omitted with a note.
// Every other key has an effect or is an error.
func ReadClient(name string, data []byte) (*ClientFile, error) {
	if isTOML(data) {
		return nil, strictyaml.Errors{{File: name, Message: tomlHint}}
	}
	doc, err := strictyaml.ParseJSON(name, data)
	if err != nil {
		return nil, err
	}
	doc.DropNulls()
	sum := sha256.Sum256(data)
	r := &clientReader{
		ClientFile: &ClientFile{
			Name: name, SHA256: hex.EncodeToString(sum[:]), Servers: map[string]*Server{},
			doc: doc, places: map[string]strictyaml.Path{}, rewritten: map[string]bool{},
		},
		inputs: map[string]string{}, variables: map[string]string{},
	}
	if r.find() {
		r.readInputs()
		r.readServers()
	}
	if err := doc.Err(); err != nil {
		return nil, err
	}
	slices.SortStableFunc(r.Notes, func(a, b Note) int { return a.Position.Compare(b.Position) })
	r.Notes = slices.Compact(r.Notes)
	return r.ClientFile, nil
}

// Document returns the parsed file, for reporting problems with their positions.
func (f *ClientFile) Document() *strictyaml.Document { return f.doc }

// Place returns the position of a server in the file, of its field, or of a key of that
// field, as in [Error]. Field and key may be empty.
func (f *ClientFile) Place(server, field, key string) strictyaml.Path {
	at := f.places[server]
	if field == "" {
		return at
	}
	if service, inner, nested := strings.Cut(field, "."); nested { // the field belongs to a service
		at = at.With(service)
		for name := range strings.SplitSeq(inner, ".") {
			at = at.With(name)
		}
		if f.doc.Has(at.With(step(inner, inner, key))...) {
			at = at.With(step(inner, inner, key))
		}
		return at
	}
	if field == "args" && f.rewritten[server] {
		return at.With("command")
	}
	for _, name := range append([]string{field}, otherNames[field]...) {
		if !f.doc.Has(at.With(name)...) {
			continue
		}
		at = at.With(name)
		if inner := at.With(step(field, name, key)); f.doc.Has(inner...) {
			at = inner
		}
		break
	}
	return at
}

// step returns the path from a field, called name in the file, to one of its keys; the path is an item if the
// key is an index. If a command is a list, its args start at the second item.
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

// clientReader fills a ClientFile.
type clientReader struct {
	*ClientFile
	at        strictyaml.Path   // of the servers
	inputs    map[string]string // defaults of inputs by ID; empty if an input has none
	variables map[string]string // environment variables, with the inputs that they replace
	bareVars  bool              // $NAME is a variable
}

// openCode reports whether the file has the format of OpenCode, whose variables and
// timeouts differ from others.
func (r *clientReader) openCode() bool { return r.at[0] == "mcp" }

func (r *clientReader) note(at strictyaml.Path, format string, args ...any) {
	r.Notes = append(r.Notes, Note{r.doc.Key(at...), fmt.Sprintf(format, args...)})
}

// keys returns the keys of the mapping at a path, in the order of the file.
func (r *clientReader) keys(at strictyaml.Path) []string {
	var values map[string]json.RawMessage
	r.doc.DecodeAt(&values, at...)
	return r.doc.Keys(at...)
}

func (r *clientReader) readServers() {
	r.bareVars = r.expandsBare()
	named := map[string]string{} // host name → name in the file
	for _, name := range r.keys(r.at) {
		at := r.at.With(name)
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
		r.doc.Problemf(r.at, "%s holds no server that is enabled; add one, or enable it", r.at)
	}
}

// off reports whether the file disables a server.
func (r *clientReader) off(name string, at strictyaml.Path) bool {
	for _, rule := range []struct {
		key string
		off bool
	}{{"disabled", true}, {"enabled", false}} {
		value := !rule.off
		if path := at.With(rule.key); r.doc.Has(path...) && r.doc.DecodeAt(&value, path...) && value == rule.off {
			r.note(at, "server %q is left out: %s is %t", name, rule.key, value)
			return true
		}
	}
	return r.filtered(name, at)
}

// filtered reports whether Gemini CLI's lists of servers exclude a server.
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

const shapes = "mcpServers (Claude, Cursor, Copilot CLI, Gemini CLI, Windsurf, Cline, Roo Code), servers (VS Code), mcp (OpenCode) or context_servers (Zed)"

const tomlHint = `this is TOML, as Codex has it, and only JSON is read; write the servers as {"mcpServers": {"NAME": {"command": "…", "args": ["…"], "env": {"KEY": "…"}}}}`

// tomlLine matches the header of a TOML table, or a key and its value. No line of JSON matches.
var tomlLine = regexp.MustCompile(`^(\[\[?[A-Za-z_][^]{}:]*\]\]?\s*(#.*)?|[A-Za-z_][A-Za-z0-9_.-]*\s*=.*)$`)

// isTOML reports whether the first line that is not empty or a comment is TOML.
func isTOML(data []byte) bool {
	for line := range bytes.Lines(data) {
		line = bytes.TrimSpace(bytes.TrimPrefix(line, []byte("\ufeff")))
		if len(line) > 0 && line[0] != '#' {
			return tomlLine.Match(line)
		}
	}
	return false
}

// find finds the servers. It reports an error if the file has none.
func (r *clientReader) find() bool {
	keys := r.keys(nil)
	var found []string
	for _, key := range keys {
		if slices.Contains(serverKeys, key) {
			found = append(found, key)
		}
	}
	switch {
	case r.doc.Err() != nil:
		return false
	case len(found) > 1:
		r.doc.KeyProblemf(strictyaml.Path{found[1]}, "the file holds servers under %s and under %s; keep one of them", found[0], found[1])
		return false
	case len(found) == 1:
		r.at = strictyaml.Path{found[0]}
	case slices.Contains(keys, "mcp"):
		r.at = r.findOpenCode()
	default:
		r.doc.Problemf(nil, "there are no MCP servers here; a client's file has them under %s, and this one has %s", shapes, r.found(keys))
		return false
	}
	r.leftOut(keys)
	return r.doc.Err() == nil
}

// findOpenCode returns the path of the servers in a file with the key mcp. In OpenCode's files, the servers
// are directly below the key; in version 2 of these files and in VS Code's settings.json, one level deeper.
func (r *clientReader) findOpenCode() strictyaml.Path {
	at := strictyaml.Path{"mcp"}
	if !r.doc.Has("mcp", "servers") || r.isServer("mcp", "servers") {
		return at
	}
	for _, key := range r.keys(at) {
		path := at.With(key)
		switch {
		case key == "servers" || key == "inputs":
		case r.isServer(path...):
			r.doc.KeyProblemf(path, "server %q is outside mcp.servers; move it in there", key)
		default:
			r.note(path, "mcp.%s is left out, since it is not about a server", key)
		}
	}
	return at.With("servers")
}

func (r *clientReader) isServer(path ...any) bool {
	return slices.ContainsFunc([]string{"command", "url", "httpUrl", "serverUrl"}, func(key string) bool {
		return r.doc.Has(strictyaml.Path(path).With(key)...)
	})
}

// found describes the content of a file without servers in the expected place.
func (r *clientReader) found(keys []string) string {
	if len(keys) == 0 {
		return "no keys"
	}
	if slices.ContainsFunc(keys, func(key string) bool { return r.isServer(key) }) {
		return "servers without a key around them; put them under mcpServers"
	}
	if others := r.nested(nil); len(others) > 0 {
		return fmt.Sprintf("them under %s; move those that are wanted into mcpServers at the top", text.Quote(others[0].String(), maxPlace))
	}
	return "only " + quoted(keys)
}

// serverKeys are the keys under which clients store servers.
var serverKeys = []string{"mcpServers", "servers", "context_servers", "mcp_servers"}

// aboutServers matches keys of clients' settings that enable or allow servers.
var aboutServers = regexp.MustCompile(`(?i)mcp`)

const (
	maxNested = 20  // maximum number of places that are noted
	maxPlace  = 200 // maximum size of one, in bytes
)

// nested returns the paths below at that hold servers, such as those of projects in Claude Code's
// ~/.claude.json.
func (r *clientReader) nested(at strictyaml.Path) (found []strictyaml.Path) {
	for _, key := range r.doc.Keys(at...) {
		path := at.With(key)
		holds := slices.Contains(serverKeys, key) && slices.ContainsFunc(r.doc.Keys(path...), func(name string) bool { return r.isServer(path.With(name)...) })
		switch {
		case holds:
			found = append(found, path)
		case len(path) < 8:
			found = append(found, r.nested(path)...)
		}
		if len(found) >= maxNested {
			return found[:maxNested]
		}
	}
	return found
}

// leftOut notes the file's other keys in one message, since a client's settings have many.
func (r *clientReader) leftOut(keys []string) {
	rest := slices.DeleteFunc(slices.Clone(keys), func(key string) bool {
		return key == r.at[0] || key == "inputs" || key == "$schema" || key == "mcp" && r.at[0] == "mcpServers"
	})
	rest = slices.DeleteFunc(rest, func(key string) bool {
		others := r.nested(strictyaml.Path{key})
		for _, at := range others {
			r.note(at, "servers under %s are left out: %s; to take one, move it into %s", text.Quote(at.String(), maxPlace), quoted(r.doc.Keys(at...)), r.at)
		}
		switch {
		case len(others) > 0:
		case aboutServers.MatchString(key):
			r.note(strictyaml.Path{key}, "%s is left out: it may choose among the client's servers, and here all of %s are taken", key, r.at)
		default:
			return false
		}
		return true
	})
	if len(rest) > 0 {
		r.note(strictyaml.Path{rest[0]}, "left out, since it is not about servers: %s", quoted(rest))
	}
	if r.at[0] != "mcpServers" || !r.doc.Has("mcp") {
		return
	}
	for _, key := range r.keys(strictyaml.Path{"mcp"}) {
		if key != "allowed" && key != "excluded" {
			r.note(strictyaml.Path{"mcp", key}, "mcp.%s is left out, since it is not about a server", key)
		}
	}
}

// quoted lists words for a message.
func quoted(words []string) string { return strings.Join(text.Some(words, 8, quote), ", ") }
