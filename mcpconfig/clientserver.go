package mcpconfig

import (
	"cmp"
	"encoding/json"
	"errors"
	"maps"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/waza-isolate/waza/internal/strictyaml"
	"github.com/waza-isolate/waza/internal/text"
)

// clientServer is one server of a client's file. Its fields replace fields of Server with the same name,
// since their types differ in clients' files.
type clientServer struct {
	Server
	clientInterface
	clientRefused

	Type    string      `json:"type,omitempty"`
	Command commandLine `json:"command,omitempty"`
	Timeout float64     `json:"timeout,omitempty" over:"0" max:"86400000"`

	Transport    string            `json:"transport,omitempty"`
	Environment  map[string]string `json:"environment,omitempty"`
	HTTPURL      string            `json:"httpUrl,omitempty"`
	ServerURL    string            `json:"serverUrl,omitempty"`
	IncludeTools []string          `json:"includeTools,omitempty"`
	Enabled      bool              `json:"enabled,omitempty"`
	Disabled     bool              `json:"disabled,omitempty"`
}

// clientInterface holds settings that concern only a client's user interface or its questions to the user,
// and not what a server does.
type clientInterface struct {
	AlwaysAllow    json.RawMessage `json:"alwaysAllow,omitempty"`
	AutoApprove    json.RawMessage `json:"autoApprove,omitempty"`
	Trust          json.RawMessage `json:"trust,omitempty"`
	Icon           json.RawMessage `json:"icon,omitempty"`
	Label          json.RawMessage `json:"name,omitempty"`
	Title          json.RawMessage `json:"title,omitempty"`
	Description    json.RawMessage `json:"description,omitempty"`
	Gallery        json.RawMessage `json:"gallery,omitempty"`
	Version        json.RawMessage `json:"version,omitempty"`
	Source         json.RawMessage `json:"source,omitempty"`
	ExtensionName  json.RawMessage `json:"extensionName,omitempty"`
	Dev            json.RawMessage `json:"dev,omitempty"`
	Sandbox        json.RawMessage `json:"sandbox,omitempty"`
	SandboxEnabled json.RawMessage `json:"sandboxEnabled,omitempty"`
	WatchPaths     json.RawMessage `json:"watchPaths,omitempty"`
	AlwaysLoad     json.RawMessage `json:"alwaysLoad,omitempty"`
}

// clientRefused holds settings that change the behavior of a server and are not supported;
// the tag refused suggests an alternative.
type clientRefused struct {
	ExcludeTools     json.RawMessage `json:"excludeTools,omitempty" refused:"waza knows only tools to show; list those under tools"`
	DisabledTools    json.RawMessage `json:"disabledTools,omitempty" refused:"waza knows only tools to show; list those under tools"`
	EnvFile          json.RawMessage `json:"envFile,omitempty" refused:"the file is not read; put its variables into env, secret ones as ${NAME}"`
	OAuth            json.RawMessage `json:"oauth,omitempty" refused:"waza does not log in; give a token in headers, such as \"Authorization\": \"Bearer ${TOKEN}\""`
	Auth             json.RawMessage `json:"auth,omitempty" refused:"waza does not log in; give a token in headers, such as \"Authorization\": \"Bearer ${TOKEN}\""`
	AuthProviderType json.RawMessage `json:"authProviderType,omitempty" refused:"waza does not log in; give a token in headers, such as \"Authorization\": \"Bearer ${TOKEN}\""`
	HeadersHelper    json.RawMessage `json:"headersHelper,omitempty" refused:"no program is run for headers; give them in headers, secret ones as ${NAME}"`
	TCP              json.RawMessage `json:"tcp,omitempty" refused:"WebSocket is no transport of waza's; give a url of streamable HTTP or SSE"`
}

// otherNames maps fields of Server to the names that clients use for them.
var otherNames = map[string][]string{
	"type":  {"transport"},
	"args":  {"command"},
	"url":   {"httpUrl", "serverUrl"},
	"env":   {"environment"},
	"tools": {"includeTools"},
}

// commandLine is a command, or a list that begins with it.
type commandLine []string

func (c *commandLine) UnmarshalJSON(data []byte) error {
	if len(data) > 0 && data[0] == '"' {
		data = slices.Concat([]byte{'['}, data, []byte{']'})
	}
	var words []*string // null entries are nil
	if json.Unmarshal(data, &words) != nil || len(words) == 0 || slices.Contains(words, nil) {
		return errors.New("it must be a program, or a list of a program and its arguments")
	}
	for _, word := range words {
		*c = append(*c, *word)
	}
	return nil
}

// server reads one server. host is its name in the result.
func (r *clientReader) server(host string, at strictyaml.Path) *Server {
	var c clientServer
	if !r.doc.DecodeAt(&c, at...) || !r.single(at) {
		return &Server{}
	}
	r.refuse(c.clientRefused, host, at)
	r.leaveOut(c.clientInterface, host, at)
	s := c.Server
	r.onlyVariables(host, at, s.Secrets)
	r.noWayOut(host, at, s)
	s.URL = cmp.Or(s.URL, c.HTTPURL, c.ServerURL)
	s.Env = firstMap(s.Env, c.Environment)
	s.Headers = r.headers(host, at, s.Headers)
	s.Tools = r.tools(host, at, slices.Concat(s.Tools, c.IncludeTools))
	s.Type = r.transport(host, cmp.Or(c.Type, c.Transport), s.URL)
	s.Timeout = r.timeout(c, at)
	if len(c.Command) > 0 {
		words := r.command(host, at, slices.Concat(c.Command, s.Args))
		s.Command, s.Args = words[0], words[1:]
	}
	if len(s.Args) == 0 {
		s.Args = nil
	}
	eachString(&s, func(field, key, value string) string {
		return r.translate(r.Place(host, field, key), field, value)
	})
	r.secrets(s)
	return &s
}

// command converts the words of a command to those for a container.
func (r *clientReader) command(host string, at strictyaml.Path, words []string) []string {
	plain := plainCommand(words)
	if !slices.Equal(plain, words) {
		r.rewritten[host] = true
		r.note(at.With("command"), "server %q: its command is read as %s with %s", host, quote(plain[0]), text.Count(len(plain)-1, "argument"))
	}
	return plain
}

// onlyVariables rejects secrets that do not come from variables. Client files are shared, and users do not
// expect them to read other files or run programs.
func (r *clientReader) onlyVariables(host string, at strictyaml.Path, secrets map[string]Secret) {
	for _, name := range slices.Sorted(maps.Keys(secrets)) {
		if secret := secrets[name]; secret.File != "" || len(secret.Command) > 0 {
			r.doc.Problemf(at.With("secrets", name), "server %q: secrets of a client's file come from variables alone; use env, or put the server into the eval", host)
		}
	}
}

// noWayOut rejects egress and addresses in the file: the file's author could use them to send the values of
// the user's variables anywhere, including the user's network. It also rejects builds, which read the user's
// directories.
func (r *clientReader) noWayOut(host string, at strictyaml.Path, s Server) {
	if len(s.Egress) > 0 {
		r.doc.KeyProblemf(at.With("egress"), "server %q: egress: a client's file cannot allow its own servers hosts; allow them with --egress %s=HOST, or put the server into the eval", host, host)
	}
	if s.Build != nil {
		r.doc.KeyProblemf(at.With("build"), "server %q: build: a client's file cannot have images built on this machine; put the server into the eval", host)
	}
	if len(s.Addresses) > 0 {
		r.doc.KeyProblemf(at.With("addresses"), "server %q: addresses: a client's file cannot allow its own servers addresses; put the server into the eval", host)
	}
}

// headers omits headers that waza and the agent set themselves, which some clients' examples contain.
func (r *clientReader) headers(host string, at strictyaml.Path, all map[string]string) map[string]string {
	kept := map[string]string{}
	for _, name := range slices.Sorted(maps.Keys(all)) {
		if slices.Contains(ownHeaders(), strings.ToLower(name)) {
			r.note(at.With("headers"), "server %q: header %s is left out: it is set by waza or the agent", host, name)
			continue
		}
		kept[name] = all[name]
	}
	return firstMap(kept)
}

// single reports an error if a field is given under two names.
func (r *clientReader) single(at strictyaml.Path) bool {
	for field, others := range otherNames {
		if field == "args" {
			continue
		}
		var given []string
		for _, name := range append([]string{field}, others...) {
			if r.doc.Has(at.With(name)...) {
				given = append(given, name)
			}
		}
		if len(given) > 1 {
			r.doc.KeyProblemf(at.With(given[1]), "%s and %s are the same here; give one of them", given[0], given[1])
			return false
		}
	}
	return true
}

// leaveOut notes settings that only concern the client.
func (r *clientReader) leaveOut(c clientInterface, host string, at strictyaml.Path) {
	var names []string
	for name := range given(c) {
		names = append(names, name)
	}
	if len(names) > 0 {
		r.note(at.With(names[0]), "server %q: left out, since it is about the client: %s", host, quoted(names))
	}
}

// refuse reports unsupported settings, unless they are empty or false.
func (r *clientReader) refuse(c clientRefused, host string, at strictyaml.Path) {
	for name, field := range given(c) {
		r.doc.KeyProblemf(at.With(name), "server %q: %s: %s", host, name, field.Tag.Get("refused"))
	}
}

// given yields the keys of a struct of raw values whose values are neither empty nor false.
func given(c any) func(yield func(string, reflect.StructField) bool) {
	return func(yield func(string, reflect.StructField) bool) {
		v := reflect.ValueOf(c)
		for i := range v.NumField() {
			raw := string(v.Field(i).Bytes())
			if slices.Contains([]string{"", "null", "false", "[]", "{}", `""`}, raw) {
				continue
			}
			if !yield(fieldName(v.Type().Field(i)), v.Type().Field(i)) {
				return
			}
		}
	}
}

// tools returns the tools to show. "*" means all.
func (r *clientReader) tools(host string, at strictyaml.Path, tools []string) []string {
	if slices.Contains(tools, "*") {
		return nil
	}
	if len(tools) > 0 {
		return tools
	}
	for _, name := range []string{"tools", "includeTools"} {
		if r.doc.Has(at.With(name)...) {
			r.doc.KeyProblemf(at.With(name), "server %q: %s is empty, which hides every tool; list tools, or remove it to show all", host, name)
		}
	}
	return nil
}

// transport returns the normalized type. Without a type, a URL means streamable HTTP, unless its path
// contains SSE; clients try which one it is.
func (r *clientReader) transport(host, name, url string) string {
	switch strings.NewReplacer("-", "", "_", "").Replace(strings.ToLower(name)) {
	case "stdio", "local":
		return "stdio"
	case "http", "streamablehttp", "remote":
		return "http"
	case "sse":
		return "sse"
	case "":
		break
	default:
		known := []string{"stdio", "http", "streamable-http", "sse", "local", "remote"}
		r.doc.Problemf(r.Place(host, "type", ""), "server %q: unknown type %s; %s", host, quote(name), strictyaml.Suggest(name, known))
		return ""
	}
	switch {
	case url == "":
		return ""
	case IsEventsURL(url):
		r.note(r.Place(host, "url", ""), "server %q is read as type sse, as its url ends; write type: http if it is not", host)
		return "sse"
	}
	return "http"
}

// IsEventsURL reports whether a URL without a type means the HTTP+SSE transport: whether its path ends with
// /sse.
func IsEventsURL(url string) bool {
	path, _, _ := strings.Cut(url, "?")
	return strings.HasSuffix(strings.TrimRight(path, "/"), "/sse")
}

// timeout returns the request timeout in milliseconds. OpenCode uses milliseconds, like waza. For other
// clients, the size of the number decides between milliseconds and seconds.
func (r *clientReader) timeout(c clientServer, at strictyaml.Path) float64 {
	const hour = 3600
	inSeconds := c.Timeout < 1000 || c.Timeout <= hour && (c.AlwaysAllow != nil || c.AutoApprove != nil || c.WatchPaths != nil)
	if c.Timeout == 0 || r.openCode() || r.at[0] == "mcp_servers" || !inSeconds {
		return c.Timeout
	}
	r.note(at.With("timeout"), "timeout is read as seconds: %s milliseconds", strconv.FormatFloat(1000*c.Timeout, 'f', -1, 64))
	return 1000 * c.Timeout
}

// secretName matches names of secrets, but not of related settings: TOKEN, but not
// TOKEN_TYPE.
var secretName = regexp.MustCompile(`(?i)(token|secret|password|passwd|credentials?|(api|access|private)[_-]?key|^(proxy-)?authorization|^cookie)$`)

// minSecret is the minimum length of a secret. It keeps words such as none from being redacted everywhere.
const minSecret = 8

// secrets collects literal values in the file whose names indicate that they are secret.
func (r *clientReader) secrets(s Server) {
	eachString(&s, func(field, key, value string) string {
		if (field == "env" || field == "headers") && secretName.MatchString(key) && !hasVariable(value) {
			candidates := []string{value}
			if _, token, found := strings.Cut(value, " "); found && field == "headers" { // the token follows a scheme, such as Bearer
				candidates = append(candidates, token)
			}
			r.Secrets = append(r.Secrets, slices.DeleteFunc(candidates, func(s string) bool { return len(s) < minSecret })...)
		}
		return value
	})
}

func firstMap(all ...map[string]string) map[string]string {
	for _, one := range all {
		if len(one) > 0 {
			return one
		}
	}
	return nil
}

// quote quotes a word of an untrusted file, escaped and limited in length.
func quote(word string) string { return text.Quote(word, 64) }
