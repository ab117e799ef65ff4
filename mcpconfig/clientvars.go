package mcpconfig

import (
	"encoding/json"
	"regexp"
	"slices"
	"strings"

	"github.com/waza-isolate/waza/internal/strictyaml"
)

// readInputs reads the inputs next to the servers, which VS Code defines: questions to the user whose answers
// replace ${input:ID} in a server.
func (r *clientReader) readInputs() {
	at := r.at[:len(r.at)-1].With("inputs")
	if !r.doc.Has(at...) {
		return
	}
	var all []map[string]json.RawMessage
	r.doc.DecodeAt(&all, at...)
	for i, one := range all {
		var id, fallback string
		if json.Unmarshal(one["id"], &id) != nil || id == "" {
			r.doc.Problemf(at.With(i), "an input needs an id, for use as ${input:ID}")
			continue
		}
		if _, taken := r.inputs[id]; taken {
			r.doc.Problemf(at.With(i, "id"), "input %s is there already; rename one", quote(id))
		}
		_ = json.Unmarshal(one["default"], &fallback) // only a string counts
		if strings.ContainsAny(fallback, "${}") {
			fallback = ""
		}
		r.inputs[id] = fallback
	}
}

var (
	clientVar   = regexp.MustCompile(`\$\{([^}]*)\}`)
	openCodeVar = regexp.MustCompile(`\{(env|file):([^}]*)\}`)
	bareVar     = regexp.MustCompile(`^\$([A-Za-z_][A-Za-z0-9_]*)$`)
	innerVar    = regexp.MustCompile(`\$+[A-Za-z_][A-Za-z0-9_]*`)
	foreignVar  = regexp.MustCompile(`(?i)%[a-z_][a-z0-9_]{2,}%|\$env:|\{(?:env|file):[^}]*\}`)
	notInName   = regexp.MustCompile(`[^A-Z0-9]+`)
)

// clientOwn are variables that clients set from their window and machine.
var clientOwn = []string{
	"workspaceFolder", "workspaceFolderBasename", "workspaceRoot", "userHome", "pathSeparator", "/", "cwd", "file",
	"fileBasename", "fileDirname", "relativeFile", "execPath", "extensionPath",
}

// translate converts the variables in value, which is at the position at, to the format of [Expand].
func (r *clientReader) translate(at strictyaml.Path, field, value string) string {
	if r.openCode() {
		value = openCodeVar.ReplaceAllStringFunc(value, func(found string) string {
			kind, name, _ := strings.Cut(strings.Trim(found, "{}"), ":")
			if kind == "file" {
				r.doc.Problemf(at, "{file:…} is not read; write {env:NAME} and set the variable NAME to what the file holds")
				return ""
			}
			return r.environment(at, name)
		})
	}
	value = r.bare(at, field, value)
	if foreignVar.MatchString(clientVar.ReplaceAllString(value, "")) {
		r.note(at, "what looks like a variable here is taken literally; write ${NAME} for the variable NAME")
	}
	return clientVar.ReplaceAllStringFunc(value, func(found string) string {
		return r.variable(at, found)
	})
}

// bare translates $NAME. Gemini CLI and Copilot CLI expand it anywhere; other clients may treat it as literal
// text.
func (r *clientReader) bare(at strictyaml.Path, field, value string) string {
	if bare := bareVar.FindStringSubmatch(value); bare != nil && (field == "env" || field == "headers") {
		r.note(at, "$%s is read as ${%[1]s}", bare[1])
		return "${" + bare[1] + "}"
	}
	return innerVar.ReplaceAllStringFunc(value, func(found string) string {
		name := found[1:]
		switch {
		case !IsVariable(name) || strings.HasPrefix(name, "env") && strings.Contains(value, found+":"):
		case r.bareVars && name == strings.ToUpper(name):
			r.note(at, "$%s is read as ${%[1]s}", name)
			return "${" + name + "}"
		default: // not quoted, since it may be a part of a secret
			r.note(at, "a $ with a name behind it is taken literally, as most clients do; write ${NAME} for the variable NAME")
		}
		return found
	})
}

// expandsBare reports whether the file belongs to Gemini CLI or Copilot CLI, judging by keys that only these
// clients have.
func (r *clientReader) expandsBare() bool {
	return r.at[0] == "mcpServers" && slices.ContainsFunc(r.doc.Keys(r.at...), func(name string) bool {
		var server any
		r.doc.DecodeAt(&server, r.at.With(name)...)
		keys, _ := server.(map[string]any)
		tools, _ := keys["tools"].([]any)
		for _, key := range []string{"httpUrl", "trust", "includeTools", "excludeTools"} {
			if keys[key] != nil {
				return true
			}
		}
		return keys["type"] == "local" || slices.Contains(tools, any("*"))
	})
}

// variable translates one ${…}.
func (r *clientReader) variable(at strictyaml.Path, found string) string {
	inside := found[2 : len(found)-1]
	kind, name, hasKind := strings.Cut(inside, ":")
	switch {
	case slices.Contains(clientOwn, inside) || hasKind && slices.Contains(clientOwn, kind):
		r.doc.Problemf(at, "%s is a place on the client's machine, which no server's container has; write a path in the container", found)
		return ""
	case !hasKind || strings.HasPrefix(name, "-"):
		return found
	case kind == "env":
		return r.environment(at, name)
	case kind == "input":
		return r.input(at, name)
	}
	r.doc.Problemf(at, "variables of the kind ${%s:…} are the client's own; write ${NAME} and set the variable NAME", kind)
	return ""
}

func (r *clientReader) environment(at strictyaml.Path, name string) string {
	if !IsVariable(name) {
		r.doc.Problemf(at, "%s is not a variable's name", quote(name))
		return ""
	}
	return "${" + name + "}"
}

// input returns the environment variable that replaces an input and is named after it, since there is no user
// to ask.
func (r *clientReader) input(at strictyaml.Path, id string) string {
	name := strings.Trim(notInName.ReplaceAllString(strings.ToUpper(id), "_"), "_")
	if !IsVariable(name) {
		r.doc.Problemf(at, "${input:…} asks the user, which is not possible here, and cannot be the name of a variable; write ${NAME} and set the variable NAME")
		return ""
	}
	if other, taken := r.variables[name]; taken && other != id {
		r.doc.Problemf(at, "inputs %s and %s would both be the variable %s; rename one", quote(other), quote(id), name)
	}
	first := r.variables[name] == ""
	r.variables[name] = id
	fallback := r.inputs[id]
	if fallback == "" {
		if first {
			r.note(at, "${input:%s} is read from the environment variable %s; set it", id, name)
		}
		return "${" + name + "}"
	}
	if first {
		r.note(at, "${input:%s} is read from the environment variable %s, or is the input's default", id, name)
	}
	return "${" + name + ":-" + fallback + "}"
}
