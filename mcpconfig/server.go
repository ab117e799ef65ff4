// Package mcpconfig defines the configuration of MCP servers, its validation, variables, and the merging of
// layers.
//
// It starts no programs and reads no files.
package mcpconfig

import (
	"errors"
	"fmt"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Default time limits of a server, as stated in the tags of [Server].
const (
	DefaultStartup = time.Minute
	DefaultRequest = 300 * time.Second
)

// Server is an entry of mcp_servers. It has exactly one of Command (run in Image, in the
// image of Build or in the eval's server_image), only Image or Build, or URL. A Command
// that is docker run is converted to an image; see [FromDockerRun].
//
// String fields may contain ${VAR}, ${VAR:-default} and $${ for a literal "${", except
// those of Secrets.
type Server struct {
	Type           string            `json:"type,omitempty" enum:"stdio local http sse" jsonschema:"transport: stdio or its other name local; http, streamable HTTP; sse, the transport of MCP 2024-11-05; default http with url or port, else stdio"`
	Command        string            `json:"command,omitempty" jsonschema:"program of the server, looked up in the image's PATH; default the image's own; npx and uvx name a package, docker run an image"`
	Args           []string          `json:"args,omitempty" jsonschema:"arguments of command; without command they follow the image's entrypoint, in place of its CMD"`
	Env            map[string]string `json:"env,omitempty" jsonschema:"environment variables of the server"`
	Secrets        map[string]Secret `json:"secrets,omitempty" jsonschema:"environment variables of the server with secret values, and the source of each value"`
	Cwd            string            `json:"cwd,omitempty" jsonschema:"working directory in the server's container; default the image's; without isolation a directory of this machine, relative to the eval"`
	URL            string            `json:"url,omitempty" jsonschema:"http or https URL of a remote server, without user and password"`
	Addresses      []string          `json:"addresses,omitempty" jsonschema:"private addresses that the host of url may resolve to, each an IP or a CIDR such as 10.0.0.0/8"`
	Headers        map[string]string `json:"headers,omitempty" jsonschema:"headers that the runner adds to requests to a remote server"`
	Proxy          string            `json:"proxy,omitempty" jsonschema:"HTTP proxy for connections to a remote server; HTTP_PROXY and the like are not used"`
	Image          string            `json:"image,omitempty" jsonschema:"container image of the server; default server_image; with npx and uvx the image that the package is installed in"`
	Build          *Build            `json:"build,omitempty" jsonschema:"source to build the image from: a directory or a mapping; with npx and uvx, of the image that the package is installed in"`
	Pull           string            `json:"pull,omitempty" enum:"missing always never" jsonschema:"when to pull the image; default the eval's"`
	Platform       string            `json:"platform,omitempty" jsonschema:"platform of the image, such as linux/amd64; must be the engine's, which is the default"`
	User           string            `json:"user,omitempty" jsonschema:"user or uid in the server's container, with optional :group or :gid; never root; default the image's, or where that is root one that no other container has"`
	Writable       []string          `json:"writable,omitempty" jsonschema:"directories of the container that the server may write to, in addition to /tmp and home; empty at the start"`
	Port           int               `json:"port,omitempty" min:"1" max:"65535" jsonschema:"port that an HTTP server listens on in its container, on loopback or on all addresses"`
	Path           string            `json:"path,omitempty" jsonschema:"path of an HTTP server's endpoint; default /mcp, with sse /sse"`
	Files          map[string]string `json:"files,omitempty" jsonschema:"files and directories to copy into the server's container before it starts: absolute path in the container to path relative to the eval; a directory may hold 10,000 files and 256 MiB, and is copied without .git"`
	Tools          []string          `json:"tools,omitempty" jsonschema:"names of the tools that the agent sees; if the server lacks one the trial is infra; default all, also written as *"`
	StartupTimeout float64           `json:"startup_timeout,omitempty" over:"0" max:"86400" jsonschema:"seconds within which the server must answer after its start; default 60"`
	Timeout        float64           `json:"timeout,omitempty" over:"0" max:"86400000" jsonschema:"time limit of a request in milliseconds, at least 100; then the call's outcome is timeout; default 300000"`
	MaxMessage     string            `json:"max_message,omitempty" jsonschema:"size limit of a message in either direction; a server that writes a larger one is stopped; default 64m"`
	MaxFrames      int               `json:"max_frames,omitempty" min:"1" jsonschema:"limit of messages in a trial, in each direction; default 100000"`
	MaxTraffic     string            `json:"max_traffic,omitempty" jsonschema:"size limit of all messages in a trial, in each direction; default 256m"`
	Egress         []Egress          `json:"egress,omitempty" jsonschema:"outside hosts that the server may connect to through the runner; default none"`

	Limits

	// Services are containers that the server needs, by host name.
	Services map[string]*Service `json:"services,omitempty" jsonschema:"services that the server needs, such as a database, by name; each runs in a container that only the server can reach"`
}

// Limits are the resource limits of a container. Limits that are not set have defaults.
type Limits struct {
	CPUs      float64 `json:"cpus,omitempty" over:"0" jsonschema:"CPU limit of the container; default 1"`
	Memory    string  `json:"memory,omitempty" jsonschema:"memory limit of the container, without swap; files in writable directories count; default 512m, the agent's 1g"`
	Pids      int     `json:"pids,omitempty" min:"1" jsonschema:"limit of processes in the container; default 256"`
	Disk      string  `json:"disk,omitempty" jsonschema:"size limit of each writable directory, and of each volume that the image declares; default 256m, the agent's workspace 512m"`
	Scratch   string  `json:"scratch,omitempty" jsonschema:"size limit of /tmp and of home; default the value of disk"`
	ShmSize   string  `json:"shm_size,omitempty" jsonschema:"size limit of /dev/shm, which counts as memory of the container, such as 256m; default 16m"`
	OpenFiles int     `json:"open_files,omitempty" min:"64" max:"1048576" jsonschema:"limit of open files of a process; default 4096"`

	NestedSandboxes bool `json:"nested_sandboxes,omitempty" jsonschema:"let programs filter their own system calls (seccomp), as browsers do; these filters use memory that all containers share; a sandbox that also needs new namespaces, such as Chromium's, does not start"`
}

// Transports of MCP, as returned by [Server.Transport].
const (
	Stdio = "stdio"
	HTTP  = "http" // streamable HTTP
	SSE   = "sse"  // HTTP with server-sent events, of 2024-11-05
)

// Transport returns the type of s. The default is HTTP with a url or a port, and stdio
// otherwise.
func (s Server) Transport() string {
	switch {
	case s.Type == localType:
		return Stdio
	case s.Type != "":
		return s.Type
	case s.URL != "" || s.Port != 0:
		return HTTP
	}
	return Stdio
}

// Endpoint returns the path of an HTTP server's endpoint in its container. The default
// depends on the transport.
func (s Server) Endpoint() string {
	switch {
	case s.URL != "" || s.Transport() == Stdio:
		return ""
	case s.Path != "":
		return s.Path
	case s.Transport() == SSE:
		return "/sse"
	}
	return "/mcp"
}

// Shown returns the tools that the agent sees. It returns nil for all tools, also if Tools is "*".
func (s Server) Shown() []string {
	if slices.Contains(s.Tools, "*") {
		return nil
	}
	return s.Tools
}

// localType is Copilot's type of a stdio server.
const localType = "local"

// NamePattern matches valid server names. They are part of file and container names.
const NamePattern = `^[A-Za-z0-9_][A-Za-z0-9_-]{0,62}$`

// LabelPattern matches DNS labels (RFC 1123).
const LabelPattern = `^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$`

var (
	namePattern  = regexp.MustCompile(NamePattern)
	labelPattern = regexp.MustCompile(LabelPattern)
)

// ReservedNames returns names in a sandbox that servers cannot have.
func ReservedNames() []string { return []string{"agent", "localhost", "model", "proxy"} }

// HostName returns the host name of a server for the agent. It is the name itself or, if that is not a host
// name, the name in lower case with a hyphen for each run of invalid characters. It is empty if nothing is
// left.
func HostName(name string) string {
	if labelPattern.MatchString(name) {
		return name
	}
	words := strings.FieldsFunc(strings.ToLower(name), func(c rune) bool {
		return (c < 'a' || c > 'z') && (c < '0' || c > '9')
	})
	return strings.Join(words, "-")
}

// HostNames returns the host names of servers, by their names. It returns an error if two are equal.
func HostNames(servers []string) (map[string]string, error) {
	hosts, taken := map[string]string{}, map[string]string{}
	for _, name := range servers {
		host := HostName(name)
		if first, found := taken[host]; found {
			return nil, fmt.Errorf("servers %q and %q would both have the host name %s; rename one", first, name, host)
		}
		hosts[name], taken[host] = host, name
	}
	return hosts, nil
}

// CheckName validates a server's name. "the name" is the subject of its errors.
func CheckName(name string) error {
	switch host := HostName(name); {
	case len(name) > 63:
		return errors.New("is too long; shorten it to 63 characters, since it becomes a host name")
	case !namePattern.MatchString(name):
		return errors.New("has other characters than letters, digits, - and _, or begins with -; choose another")
	case host == "":
		return errors.New("has neither letters nor digits, so no host name can be made of it; choose another")
	case slices.Contains(ReservedNames(), host):
		return errors.New("is reserved; choose another")
	}
	return nil
}

// SizePattern matches valid sizes.
const SizePattern = `^([1-9][0-9]{0,15})([bkmgBKMG]?)$`

var sizePattern = regexp.MustCompile(SizePattern)

// ParseSize reads a size such as 512m: a whole number of bytes, or of KiB (k),
// MiB (m) or GiB (g), as Docker's --memory does.
func ParseSize(s string) (bytes int64, err error) {
	parts := sizePattern.FindStringSubmatch(s)
	if parts == nil {
		return 0, fmt.Errorf("%q is not a size; write a whole number and k, m or g, such as 512m", s)
	}
	number, err := strconv.ParseInt(parts[1], 10, 64)
	if err != nil {
		return 0, fmt.Errorf("%q is not a size: %w", s, err)
	}
	shift := map[string]int{"": 0, "b": 0, "B": 0, "k": 10, "K": 10, "m": 20, "M": 20, "g": 30, "G": 30}[parts[2]]
	if number > math.MaxInt64>>shift {
		return 0, fmt.Errorf("%q is too large a size", s)
	}
	return number << shift, nil
}
