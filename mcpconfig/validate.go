package mcpconfig

import (
	"maps"
	"net/url"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// Validate says what about s does not hold together, as [Errors]. A string that
// holds a variable is not judged before [Expand].
func Validate(name string, s Server) error {
	f := &findings{server: name}
	if err := CheckName(name); err != nil {
		f.invalid("", "%v", err)
	}
	f.kind(s)
	f.container(s)
	f.containerFields(s)
	f.numbers(s)
	f.services(s)
	f.egress(s)
	f.addresses(s)
	f.secrets(s)
	f.texts(s)
	return f.err()
}

// kind holds that s is one of: remote, HTTP in a container, stdio.
func (f *findings) kind(s Server) {
	switch {
	case s.Type != "" && !slices.Contains([]string{"stdio", localType, "http", "sse"}, s.Type):
		f.invalid("type", "type must be stdio, http or sse")
	case s.URL != "":
		f.remote(s)
	case s.Command == "" && s.Image == "":
		f.invalid("", "it needs a command, an image or a url")
	default:
		f.local(s)
	}
}

// remote holds that a server with a url has nothing that only a container has.
func (f *findings) remote(s Server) {
	if s.Type == "stdio" || s.Type == localType {
		f.invalid("type", "type stdio does not go with url; use http or sse, or give a command instead of the url")
	}
	f.address("url", s.URL, "http", "https")
	f.address("proxy", s.Proxy, "http", "https")
	if s.Secrets != nil {
		f.invalid("secrets", "secrets do not go with url: a remote server gets what it needs by headers, which the runner adds, such as Authorization: Bearer ${TOKEN}")
	}
	for _, field := range []struct {
		name string
		set  bool
	}{
		{"command", s.Command != ""}, {"image", s.Image != ""}, {"args", s.Args != nil}, {"env", s.Env != nil},
		{"cwd", s.Cwd != ""}, {"working_dir", s.WorkingDir != ""}, {"port", s.Port != 0}, {"path", s.Path != ""},
		{"pull", s.Pull != ""}, {"platform", s.Platform != ""}, {"user", s.User != ""}, {"writable", s.Writable != nil},
		{"files", s.Files != nil}, {"cpus", s.CPUs != 0}, {"memory", s.Memory != ""}, {"pids", s.Pids != 0}, {"disk", s.Disk != ""},
		{"scratch", s.Scratch != ""}, {"open_files", s.OpenFiles != 0},
		{"services", s.Services != nil}, {"egress", s.Egress != nil},
	} {
		if field.set {
			f.invalid(field.name, "%s does not go with url; a server is either remote or run here", field.name)
		}
	}
}

// address holds that a field is a URL that can be dialled. Its value may be a secret
// and is not repeated.
func (f *findings) address(field, value string, schemes ...string) {
	if value == "" || hasVariable(value) {
		return
	}
	u, err := url.Parse(value)
	switch {
	case err != nil || u.Host == "" || !slices.Contains(schemes, u.Scheme):
		f.invalid(field, "%s must be a URL that begins with http:// or https:// and names a host", field)
	case field == "url" && u.User != nil:
		f.invalid(field, "url must not hold a user or password; set headers.Authorization")
	case u.Fragment != "":
		f.invalid(field, "%s must not hold a fragment (#)", field)
	}
}

// local holds that a server in a container is stdio, or HTTP with a port.
func (f *findings) local(s Server) {
	if s.Headers != nil {
		f.invalid("headers", "headers go with url only")
	}
	if s.Proxy != "" {
		f.invalid("proxy", "proxy goes with url only")
	}
	http := s.Type == "http" || s.Type == "sse"
	switch {
	case http && s.Port == 0:
		f.invalid("port", "type %s needs a port, or a url in place of a command", s.Type)
	case (s.Type == "stdio" || s.Type == localType) && s.Port != 0:
		f.invalid("port", "port does not go with type stdio")
	case s.Path != "" && s.Port == 0:
		f.invalid("path", "path needs a port")
	}
}

// container holds that the fields of the container make sense.
func (f *findings) container(s Server) {
	if s.Cwd != "" && s.WorkingDir != "" {
		f.invalid("working_dir", "cwd and working_dir are the same; give one of them")
	}
	for _, dir := range []struct{ field, value string }{{"cwd", s.Cwd}, {"working_dir", s.WorkingDir}} {
		if dir.value != "" && !hasVariable(dir.value) && !path.IsAbs(dir.value) {
			f.invalid(dir.field, "%s must be an absolute path in the server's container", dir.field)
		}
	}
	if s.Path != "" && !hasVariable(s.Path) && !path.IsAbs(s.Path) {
		f.invalid("path", "path must begin with /")
	}
	if strings.ContainsFunc(s.Image, isBlank) {
		f.invalid("image", "image must not hold blanks")
	}
	for _, target := range slices.Sorted(maps.Keys(s.Files)) {
		f.file("files", target, s.Files[target])
	}
}

func (f *findings) file(field, target, source string) {
	if !path.IsAbs(target) || path.Clean(target) != target || target == "/" {
		f.add(ErrInvalid, field, target, "%s: %q must be an absolute path of a file in its container", field, target)
	}
	if !hasVariable(source) && !filepath.IsLocal(source) {
		f.add(ErrInvalid, field, target, "%s must be a path beside the eval, relative and without leading out", where(field, target))
	}
}

func (f *findings) numbers(s Server) {
	if s.Port < 0 || s.Port > 65535 {
		f.invalid("port", "port must be between 1 and 65535")
	}
	if s.Pids < 0 {
		f.invalid("pids", "pids must be at least 1")
	}
	if s.MaxFrames < 0 {
		f.invalid("max_frames", "max_frames must be at least 1")
	}
	f.openFiles("open_files", s.OpenFiles)
	for _, n := range []struct {
		field string
		value float64
	}{{"startup_timeout", s.StartupTimeout}, {"timeout", s.Timeout}, {"cpus", s.CPUs}} {
		if !(n.value >= 0) { // NaN too
			f.invalid(n.field, "%s must be more than 0", n.field)
		}
	}
	if s.Timeout > 0 && s.Timeout < minTimeout {
		f.invalid("timeout", "timeout is in milliseconds and must be at least %d; %v seconds are %v", minTimeout, s.Timeout, 1000*s.Timeout)
	}
	for _, size := range []struct{ field, value string }{{"memory", s.Memory}, {"disk", s.Disk}, {"scratch", s.Scratch}, {"max_message", s.MaxMessage}, {"max_traffic", s.MaxTraffic}} {
		f.size(size.field, size.value)
	}
}

// minTimeout is less than any request to a server needs, in milliseconds, and more than
// anyone gives in seconds.
const minTimeout = 100

// minOpenFiles is what process 1 of a container needs itself.
const minOpenFiles = 64

func (f *findings) openFiles(field string, n int) {
	if n != 0 && n < minOpenFiles {
		f.invalid(field, "%s must be at least %d", field, minOpenFiles)
	}
}

func (f *findings) size(field, value string) {
	if value == "" || hasVariable(value) {
		return
	}
	if _, err := ParseSize(value); err != nil {
		f.invalid(field, "%s is not a size; write a whole number and k, m or g, such as 512m", field)
	}
}

var (
	headerName = regexp.MustCompile("^[!#$%&'*+.^_`|~0-9A-Za-z-]+$") // RFC 9110, section 5.6.2
)

// texts holds what every string must and names the odd keys.
func (f *findings) texts(s Server) {
	eachString(&s, func(field, key, value string) string {
		if strings.ContainsRune(value, 0) {
			f.add(ErrInvalid, field, key, "%s must not hold a NUL character", where(field, key))
		}
		if field == "tools" && value == "" {
			f.add(ErrInvalid, field, key, "%s must not be empty", where(field, key))
		}
		if (field == "env" || strings.HasSuffix(field, ".env")) && !IsVariable(key) {
			f.add(ErrInvalid, field, key, "%s: %q is not a variable's name", field, key)
		}
		if field == "headers" && !headerName.MatchString(key) {
			f.add(ErrInvalid, field, key, "headers: %q is not a header's name", key)
		}
		if field == "headers" && slices.Contains(ownHeaders(), strings.ToLower(key)) {
			f.add(ErrInvalid, field, key, "headers: %s is set by waza or the agent, and cannot be set here", key)
		}
		if field == "headers" && strings.ContainsFunc(value, isControl) {
			f.add(ErrInvalid, field, key, "%s must not hold line breaks or other control characters", where(field, key))
		}
		return value
	})
}

// ownHeaders belong to the connection, the message or the session.
func ownHeaders() []string {
	return []string{
		"accept", "accept-encoding", "connection", "content-encoding", "content-length", "content-type", "host",
		"keep-alive", "last-event-id", "mcp-session-id", "mcp-protocol-version", "proxy-connection", "te", "trailer",
		"transfer-encoding", "upgrade",
	}
}

// isControl is what no header's value holds; RFC 9110, section 5.5.
func isControl(r rune) bool { return r < ' ' && r != '\t' || r == 0x7f }

func isBlank(r rune) bool { return r <= ' ' || r == 0x7f }
