// Package mcpconfig holds the configuration of MCP servers: validation, variables, and how
// one layer overrides another.
//
// It starts nothing and reads no files.
package mcpconfig

// Server is one entry under mcp_servers. A server has exactly one of Command
// (run in Image or in the eval's server_image), Image alone, or URL. A Command
// that is docker run stands for an image; see [FromDockerRun].
//
// String fields may hold ${VAR}, ${VAR:-default} and $${ for a literal "${"; those of
// Secrets do not.
type Server struct {
	Type           string            `json:"type,omitempty" enum:"stdio local http sse" jsonschema:"transport: stdio, which may be called local, http or sse; may be left out"`
	Command        string            `json:"command,omitempty" jsonschema:"program that is the server; npx, uvx and docker run are understood"`
	Args           []string          `json:"args,omitempty" jsonschema:"arguments of command; without one, of the image's entrypoint"`
	Env            map[string]string `json:"env,omitempty" jsonschema:"environment of the server alone"`
	Secrets        map[string]Secret `json:"secrets,omitempty" jsonschema:"variables of the server's environment that nothing else sees, and where their values come from"`
	Cwd            string            `json:"cwd,omitempty" jsonschema:"working directory in the server's container"`
	WorkingDir     string            `json:"working_dir,omitempty" jsonschema:"another name of cwd"`
	URL            string            `json:"url,omitempty" jsonschema:"address of a remote server"`
	Addresses      []string          `json:"addresses,omitempty" jsonschema:"addresses that are not public and that the name in url may lead to: each IP or CIDR, such as 10.0.0.0/8"`
	Headers        map[string]string `json:"headers,omitempty" jsonschema:"headers the runner adds for a remote server"`
	Proxy          string            `json:"proxy,omitempty" jsonschema:"HTTP proxy the runner reaches a remote server through; the environment's is not used"`
	Image          string            `json:"image,omitempty" jsonschema:"container image of the server"`
	Pull           string            `json:"pull,omitempty" enum:"missing always never" jsonschema:"when the image is pulled; default the eval's"`
	Platform       string            `json:"platform,omitempty" jsonschema:"platform of the image, such as linux/amd64; the engine's own, or it is refused"`
	User           string            `json:"user,omitempty" jsonschema:"user or uid in the server's container, with :group or :gid; never root; default the image's"`
	Writable       []string          `json:"writable,omitempty" jsonschema:"directories of the container that the server may write to, beside /tmp and home; they begin empty"`
	Port           int               `json:"port,omitempty" min:"1" max:"65535" jsonschema:"port an HTTP server listens on in its container"`
	Path           string            `json:"path,omitempty" jsonschema:"path of an HTTP server's endpoint"`
	Files          map[string]string `json:"files,omitempty" jsonschema:"files put into the server's container before it starts: absolute path in the container to path beside the eval"`
	Tools          []string          `json:"tools,omitempty" jsonschema:"tools the agent sees, by name; all where left out, or with *"`
	StartupTimeout float64           `json:"startup_timeout,omitempty" over:"0" max:"86400" jsonschema:"seconds until the server must answer; default 30"`
	Timeout        float64           `json:"timeout,omitempty" over:"0" max:"86400000" jsonschema:"milliseconds one request may take, at least 100; default 300000"`
	MaxMessage     string            `json:"max_message,omitempty" jsonschema:"size limit of one message, either way, such as 64m; default 64m"`
	MaxFrames      int               `json:"max_frames,omitempty" min:"1" jsonschema:"messages that may cross in a trial, each way; default 100000"`
	MaxTraffic     string            `json:"max_traffic,omitempty" jsonschema:"size limit of all messages of a trial together, each way; default 256m"`
	CPUs           float64           `json:"cpus,omitempty" over:"0" jsonschema:"CPU limit of the container; default 1"`
	Memory         string            `json:"memory,omitempty" jsonschema:"memory limit of the container, such as 512m; default 512m"`
	Pids           int               `json:"pids,omitempty" min:"1" jsonschema:"limit of processes in the container; default 256"`
	Disk           string            `json:"disk,omitempty" jsonschema:"size limit of each writable directory, such as 256m; default 256m"`
	Scratch        string            `json:"scratch,omitempty" jsonschema:"size limit of /tmp, and of home; default that of disk"`
	OpenFiles      int               `json:"open_files,omitempty" min:"64" max:"1048576" jsonschema:"files that a process may have open; default 4096"`
	Egress         []Egress          `json:"egress,omitempty" jsonschema:"hosts outside of the trial that the server may reach through the runner; none where left out"`

	// Services are what the server needs beside it, by the names it reaches them by.
	Services map[string]*Service `json:"services,omitempty" jsonschema:"what the server needs beside it, such as a database: containers that it alone reaches, by name"`
}
