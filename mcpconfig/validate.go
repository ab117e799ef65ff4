package mcpconfig

import (
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"net/url"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/waza-isolate/waza/internal/strictyaml"
)

// Validate returns the errors in s as [Errors]. Strings with variables can only be checked after [Expand].
func Validate(name string, s Server) error {
	f := &findings{server: name}
	if err := CheckName(name); err != nil {
		f.invalid("", "the name %v", err)
	}
	f.kind(s)
	f.places(s)
	if s.URL == "" {
		f.build("", s.Image, s.Build)
	}
	f.container("", containerOf{s.Image, s.User, s.Writable, s.Files, s.Limits})
	f.limits(s)
	f.services(s)
	f.egress(s)
	f.addresses(s)
	f.secrets(s)
	f.texts(s)
	return f.err()
}

// remoteFields returns the fields that a server with a url can have.
func remoteFields() []string {
	return []string{
		"type", "url", "addresses", "headers", "proxy", "tools", "startup_timeout", "timeout", "max_message", "max_frames", "max_traffic",
	}
}

// kind checks that s is either remote, HTTP in a container, or stdio.
func (f *findings) kind(s Server) {
	switch {
	case s.URL != "":
		f.remote(s)
	case s.Command == "" && s.Image == "" && s.Build == nil:
		f.invalid("", "it has no command, image or url; add one of them")
	default:
		f.local(s)
	}
}

// remote checks that a server with a url has no fields that need a container.
func (f *findings) remote(s Server) {
	if s.Type == "stdio" || s.Type == localType {
		f.invalid("type", "type stdio does not go with url; use http or sse, or give a command instead of the url")
	}
	f.address("url", s.URL, "http", "https")
	f.address("proxy", s.Proxy, "http", "https")
	if s.Secrets != nil {
		f.invalid("secrets", "secrets cannot be used with url; give a remote server its credentials in headers, such as Authorization: Bearer ${TOKEN}")
	}
	for _, name := range strictyaml.Given(s) {
		if name != "secrets" && !slices.Contains(remoteFields(), name) {
			f.invalid(name, "%s cannot be combined with url, which is for remote servers; remove one of them", name)
		}
	}
}

// address checks that a field is a URL that can be connected to. Errors do not quote its value, which may be
// secret.
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

// local checks that a server in a container uses stdio, or HTTP with a port.
func (f *findings) local(s Server) {
	if s.Headers != nil {
		f.invalid("headers", "headers go with url only")
	}
	if s.Proxy != "" {
		f.invalid("proxy", "proxy can only be used with url")
	}
	http := s.Type == "http" || s.Type == "sse"
	switch {
	case http && s.Port == 0:
		f.invalid("port", "type %s needs a port, or a url instead of a command", s.Type)
	case (s.Type == "stdio" || s.Type == localType) && s.Port != 0:
		f.invalid("port", "port does not go with type stdio")
	case s.Path != "" && s.Port == 0:
		f.invalid("path", "path needs a port")
	}
}

// places checks the paths and the platform of a server.
func (f *findings) places(s Server) {
	if s.Cwd != "" && !hasVariable(s.Cwd) && !path.IsAbs(s.Cwd) {
		f.invalid("cwd", "cwd must be an absolute path in the server's container")
	}
	if s.Path != "" && !hasVariable(s.Path) && !path.IsAbs(s.Path) {
		f.invalid("path", "path must begin with /")
	}
	if s.Platform != "" && !hasVariable(s.Platform) && strings.Count(s.Platform, "/") < 1 {
		f.invalid("platform", "platform must be of the form linux/amd64")
	}
}

// build checks that the settings of a build are consistent. image is the image given next to the build, if
// any. Names of fields start with prefix.
func (f *findings) build(prefix, image string, b *Build) {
	if b == nil {
		return
	}
	at := prefix + "build"
	if image != "" {
		f.invalid(at, "%simage and %s are both given; remove one of them", prefix, at)
	}
	if b.Dockerfile != "" && !hasVariable(b.Dockerfile) && !filepath.IsLocal(b.Dockerfile) {
		f.invalid(at+".dockerfile", "%s.dockerfile must be a path in the context, relative, with / and without ..", at)
	}
	for _, name := range slices.Sorted(maps.Keys(b.Args)) {
		if !IsVariable(name) {
			f.add(at+".args", name, "%s.args: %q is not a variable's name", at, name)
		}
		f.stays(at+".args", name, b.Args[name])
	}
	f.stays(at+".dockerfile", "", b.Dockerfile)
	f.stays(at+".target", "", b.Target)
}

// stays rejects variables in values that an image stores, in its history or in a label, where everyone who
// gets the image can read them.
func (f *findings) stays(field, key, value string) {
	parts, _ := split(value) // Expand reports errors
	for _, p := range parts {
		if p.variable != "" {
			f.add(field, key, "%s: ${%s} may be a secret, and the image would keep its value; write a value that is no secret, or build the image yourself and name it under image", where(field, key), p.variable)
		}
	}
}

// containerOf holds the settings that containers of servers and of services share.
type containerOf struct {
	image, user string
	writable    []string
	files       map[string]string
	limits      Limits
}

// container validates the settings of a container. Its field names start with prefix.
func (f *findings) container(prefix string, c containerOf) {
	if strings.ContainsFunc(c.image, isBlank) {
		f.invalid(prefix+"image", "%simage must not hold blanks", prefix)
	}
	if err := CheckUser(c.user); c.user != "" && !hasVariable(c.user) && err != nil {
		f.invalid(prefix+"user", "%suser %v", prefix, err)
	}
	for i, dir := range c.writable {
		if err := checkWritable(dir); err != nil && !hasVariable(dir) {
			key := strconv.Itoa(i)
			f.add(prefix+"writable", key, "%s %v", where(prefix+"writable", key), err)
		}
	}
	for _, target := range slices.Sorted(maps.Keys(c.files)) {
		f.file(prefix+"files", target, c.files[target])
	}
	f.size(prefix+"memory", c.limits.Memory)
	f.size(prefix+"disk", c.limits.Disk)
	f.size(prefix+"scratch", c.limits.Scratch)
	f.size(prefix+"shm_size", c.limits.ShmSize)
}

func (f *findings) file(field, target, source string) {
	if !path.IsAbs(target) || path.Clean(target) != target || target == "/" {
		f.add(field, target, "%s: %q must be an absolute path of a file in its container", field, target)
	}
	if ReservedDir(target) {
		f.add(field, target, "%s: %q is in a directory of its container that cannot be written to; choose another, such as /data", field, target)
	}
	if !hasVariable(source) && !filepath.IsLocal(source) {
		f.add(field, target, "%s must be a relative path without .., from the eval's directory", where(field, target))
	}
}

// limits checks that a timeout is plausible in milliseconds, and that sizes are valid. Other numbers are
// limited by tags when they are decoded.
func (f *findings) limits(s Server) {
	if s.Timeout > 0 && s.Timeout < minTimeout {
		f.invalid("timeout", "timeout is in milliseconds and must be at least %d; %v seconds are %v", minTimeout, s.Timeout, 1000*s.Timeout)
	}
	f.size("max_message", s.MaxMessage)
	f.size("max_traffic", s.MaxTraffic)
}

// minTimeout is in milliseconds. It is shorter than any sensible timeout in milliseconds, and larger than any
// sensible number of seconds.
const minTimeout = 100

func (f *findings) size(field, value string) {
	if err := checkSize(value); value != "" && !hasVariable(value) && err != nil {
		f.invalid(field, "%s %v", field, err)
	}
}

// checkSize validates a size. The name of its field is the subject of its errors.
func checkSize(value string) error {
	if _, err := ParseSize(value); err != nil {
		return errors.New("is not a size; write a whole number and k, m or g, such as 512m")
	}
	return nil
}

var (
	headerName = regexp.MustCompile("^[!#$%&'*+.^_`|~0-9A-Za-z-]+$") // RFC 9110, section 5.6.2
)

// texts validates every string, and the names that are used as keys.
func (f *findings) texts(s Server) {
	eachString(&s, func(field, key, value string) string {
		if strings.ContainsRune(value, 0) {
			f.add(field, key, "%s must not hold a NUL character", where(field, key))
		}
		if field == "tools" && value == "" {
			f.add(field, key, "%s must not be empty", where(field, key))
		}
		if (field == "env" || strings.HasSuffix(field, ".env")) && !IsVariable(key) {
			f.add(field, key, "%s: %q is not a variable's name", field, key)
		}
		if field == "headers" && !headerName.MatchString(key) {
			f.add(field, key, "headers: %q is not a header's name", key)
		}
		if field == "headers" && slices.Contains(ownHeaders(), strings.ToLower(key)) {
			f.add(field, key, "headers: %s is set by waza or the agent, and cannot be set here", key)
		}
		if field == "headers" && strings.ContainsFunc(value, isControl) {
			f.add(field, key, "%s must not hold line breaks or other control characters", where(field, key))
		}
		return value
	})
}

// ownHeaders returns headers that belong to the connection, the message or the session.
func ownHeaders() []string {
	return []string{
		"accept", "accept-encoding", "connection", "content-encoding", "content-length", "content-type", "host",
		"keep-alive", "last-event-id", "mcp-session-id", "mcp-protocol-version", "proxy-connection", "te", "trailer",
		"transfer-encoding", "upgrade",
	}
}

// isControl reports whether a header value must not contain r; see RFC 9110, section 5.5.
func isControl(r rune) bool { return r < ' ' && r != '\t' || r == 0x7f }

func isBlank(r rune) bool { return r <= ' ' || r == 0x7f }

// UserPattern matches a container's user: user or uid, optionally with :group or :gid. It
// does not exclude root.
const UserPattern = `^([a-z_][a-z0-9_-]{0,31}|[0-9]{1,10})(:([a-z_][a-z0-9_-]{0,31}|[0-9]{1,10}))?$`

var userPattern = regexp.MustCompile(UserPattern)

// CheckUser validates a container's user.
func CheckUser(user string) error {
	if !userPattern.MatchString(user) {
		return errors.New("must be a user or uid, with :group or :gid where wanted, such as 1000:1000")
	}
	name, _, _ := strings.Cut(user, ":")
	if uid, err := strconv.ParseUint(name, 10, 64); name == "root" || err == nil && uid == 0 {
		return errors.New("must not be root")
	}
	return nil
}

// checkWritable validates a writable directory.
func checkWritable(dir string) error {
	switch {
	case !path.IsAbs(dir) || path.Clean(dir) != dir || strings.ContainsAny(dir, ":\x00"):
		return errors.New("must be an absolute path of a directory in the container, without a colon")
	case ReservedDir(dir):
		return fmt.Errorf("cannot be %s, which an empty directory would hide; choose one of the server's own, such as /data", dir)
	}
	return nil
}

// ReservedDir reports whether a directory cannot be made writable: the root, directories of the kernel,
// system directories of the image, which an empty directory would hide, and waza's own.
func ReservedDir(dir string) bool {
	if dir == "/" {
		return true
	}
	return slices.ContainsFunc([]string{
		"/proc", "/sys", "/dev", "/etc", "/usr", "/bin", "/sbin", "/lib", "/lib64", "/opt/waza",
	}, func(taken string) bool {
		return dir == taken || strings.HasPrefix(dir, taken+"/")
	})
}

// PullPolicies returns the policies for pulling an image: if the engine lacks it, always, or never.
func PullPolicies() []string { return []string{PullMissing, PullAlways, PullNever} }

func checkPull(policy string) error {
	if !slices.Contains(PullPolicies(), policy) {
		return errors.New("must be missing, always or never")
	}
	return nil
}

// Policies returned by [PullPolicies].
const (
	PullMissing = "missing"
	PullAlways  = "always"
	PullNever   = "never"
)

// Secret is the source of an environment variable that only the server may see: exactly one
// of Env, File and Command. Variables (${VAR}) are not expanded in it.
type Secret struct {
	Env     string   `json:"env,omitempty" jsonschema:"environment variable of the runner"`
	File    string   `json:"file,omitempty" jsonschema:"path of a file, relative to the eval"`
	Command []string `json:"command,omitempty" jsonschema:"program and arguments that the runner runs on this machine, once per run and in the directory of the eval; its output is the value"`
}

// String describes the source.
func (s Secret) String() string {
	switch {
	case s.Env != "":
		return "the variable " + s.Env
	case s.File != "":
		return "the file " + s.File
	}
	return fmt.Sprintf("what the command %q prints", s.Command)
}

// secrets checks that each secret of s has a unique name and one source.
func (f *findings) secrets(s Server) {
	for _, name := range slices.Sorted(maps.Keys(s.Secrets)) {
		at := where("secrets", name)
		wrong := func(format string, args ...any) { f.add("secrets", name, format, args...) }
		secret := s.Secrets[name]
		if !IsVariable(name) {
			wrong("secrets: %q is not a variable's name", name)
			continue
		}
		if _, both := s.Env[name]; both {
			wrong("%s is in env too; give the variable in one of them", at)
		}
		given := 0
		for _, set := range []bool{secret.Env != "", secret.File != "", len(secret.Command) > 0} {
			if set {
				given++
			}
		}
		switch {
		case given != 1:
			wrong("%s must say where its value comes from: give one of env, file and command", at)
		case secret.Env != "" && !IsVariable(secret.Env):
			wrong("%s.env is the name of a variable, without ${}", at)
		case hasVariable(secret.File) || slices.ContainsFunc(secret.Command, hasVariable):
			wrong("%s: variables are not expanded in secrets; write it out", at)
		case strings.ContainsRune(secret.File, 0) || slices.ContainsFunc(secret.Command, func(arg string) bool { return strings.ContainsRune(arg, 0) }):
			wrong("%s must not hold a NUL character", at)
		case given == 1 && len(secret.Command) > 0 && secret.Command[0] == "":
			wrong("%s.command[0] must not be empty", at)
		}
	}
}

// copySecrets returns a copy of secrets that can be changed without changing the original.
func copySecrets(secrets map[string]Secret) map[string]Secret {
	secrets = maps.Clone(secrets)
	for name, secret := range secrets {
		secret.Command = slices.Clone(secret.Command)
		secrets[name] = secret
	}
	return secrets
}

// Supported returns an error if the command of a valid s is not supported yet.
func Supported(name string, s Server) error {
	other := unsupportedLaunchers[path.Base(s.Command)]
	if other == "" || s.Image != "" || s.Build != nil {
		return nil
	}
	return fmt.Errorf("not supported yet: server %q: command %s; use %s, or install the server into an image", name, path.Base(s.Command), other)
}

// unsupportedLaunchers maps commands that download the server to the launcher of [ReadPackage] to use
// instead. They are allowed with an image, which may contain the server.
var unsupportedLaunchers = map[string]string{"bunx": "npx", "pnpx": "npx", "pipx": "uvx"}

// IsNearbyName reports whether a host name is resolved by this machine or its network: it
// has no dot, or ends in .localhost (RFC 6761), .local (RFC 6762), .home.arpa (RFC 8375) or
// .internal.
func IsNearbyName(name string) bool {
	name = strings.ToLower(strings.TrimSuffix(name, "."))
	below := func(domain string) bool { return strings.HasSuffix(name, domain) }
	return !strings.Contains(name, ".") || slices.ContainsFunc([]string{".localhost", ".local", ".home.arpa", ".internal"}, below)
}

// ReadAddress parses an entry of addresses: an IP address or a CIDR range. The name of the entry is the
// subject of its errors, which contain no value.
func ReadAddress(entry string) (netip.Prefix, error) {
	name, in, err := readHost(entry)
	if err == nil && name == "" {
		return in, nil
	}
	return in, errors.New("is neither an IP address nor a CIDR range without host bits, such as 10.0.0.0/8")
}

// addresses checks that the entries of addresses are valid, and that there is a url.
func (f *findings) addresses(s Server) {
	if s.URL == "" && s.Addresses != nil {
		f.invalid("addresses", "addresses can only be used with url")
		return
	}
	if s.Proxy != "" && s.Addresses != nil {
		f.invalid("addresses", "addresses does not go with proxy, which finds the addresses of names itself")
	}
	for i, entry := range s.Addresses {
		if _, err := ReadAddress(entry); err != nil && !hasVariable(entry) {
			key := strconv.Itoa(i)
			f.add("addresses", key, "%s %s", where("addresses", key), err)
		}
	}
}

func (f *findings) add(field, key, format string, args ...any) {
	f.all = append(f.all, &Error{
		Server: f.server, Field: field, Key: key, Message: fmt.Sprintf(format, args...),
	})
}

func (f *findings) invalid(field, format string, args ...any) {
	f.add(field, "", format, args...)
}

func (f *findings) err() error {
	if len(f.all) == 0 {
		return nil
	}
	return f.all
}

// egress checks that the hosts which s may reach are not names or ports of the trial itself.
func (f *findings) egress(s Server) {
	var known []Egress
	var places []string // positions in the file
	for i, entry := range s.Egress {
		if !hasVariable(entry.Host) && !hasVariable(entry.Address) {
			known, places = append(known, entry), append(places, strconv.Itoa(i))
		}
	}
	all, problems := ReadEgress(known)
	for _, p := range problems {
		key := ""
		if p.Index >= 0 {
			key = places[p.Index]
		}
		f.add("egress", key, "%s %s", where("egress", key), p.What)
	}
	for _, d := range all {
		switch {
		case d.Name == f.server || s.Services[d.Name] != nil:
			f.invalid("egress", "egress: %s is a name that the trial itself has; choose another name, with address", d.Name)
		case d.Name != "" && slices.Contains(d.Ports, s.Port):
			f.invalid("egress", "egress: %d is the port of the server itself; have it listen on another, or leave that port out here", s.Port)
		}
	}
	if len(s.Egress) > 0 && s.Port == EgressProxyPort {
		f.invalid("port", "port %d is taken by egress; have the server listen on another", s.Port)
	}
}
