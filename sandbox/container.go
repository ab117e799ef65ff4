package sandbox

import (
	"fmt"
	"strings"

	"github.com/docker/go-units"

	"github.com/waza-isolate/waza/evidence"
)

// DefaultOpenFiles is how many files a process may have open.
const DefaultOpenFiles = 4096

// Container is a container and its limits.
type Container struct {
	Image  string  `json:"image"` // empty: the guest's own image, which holds nothing else
	User   string  `json:"user,omitempty"`
	CPUs   float64 `json:"cpus"`
	Memory int64   `json:"memory"` // bytes, no swap beyond
	Disk   int64   `json:"disk"`   // bytes of each writable directory
	Pids   int64   `json:"pids"`
	// OpenFiles is how many files each process may have open; 0 for
	// [DefaultOpenFiles].
	OpenFiles int64 `json:"open_files,omitempty"`
	// Scratch is how many bytes each of /tmp and home may hold; 0 for Disk.
	Scratch int64 `json:"scratch,omitempty"`

	// Platform is the platform that the image must be for, as os/architecture; empty for
	// the engine's own.
	Platform string `json:"platform,omitempty"`
	// Pull is when the image is pulled, as in mcpconfig.PullPolicies; empty for
	// where it is missing.
	Pull string `json:"pull,omitempty"`
}

// Limits returns the limits, as evidence has them.
func (c Container) Limits() evidence.Limits {
	return evidence.Limits{
		CPUs: c.CPUs, Memory: c.Memory, Pids: c.Pids, OpenFiles: c.OpenFiles,
		Disk: c.Disk, Scratch: c.Scratch,
	}
}

// String names the image and the limits.
func (c Container) String() string {
	image := c.Image
	if image == "" {
		image = "waza's own"
	}
	user := ""
	if c.User != "" {
		user = ", user " + c.User
	}
	if c.Pull != "" {
		image += " (pull " + c.Pull + ")"
	}
	text := fmt.Sprintf("image %s%s, cpus %g, memory %s, disk %s, pids %d", image, user, c.CPUs, units.BytesSize(float64(c.Memory)), units.BytesSize(float64(c.Disk)), c.Pids)
	if c.Scratch != c.Disk {
		text += ", scratch " + units.BytesSize(float64(c.Scratch))
	}
	if c.OpenFiles != DefaultOpenFiles {
		text += fmt.Sprintf(", open files %d", c.OpenFiles)
	}
	return text
}

// Paths in the agent's container as plans, [Sandbox.Put] and [Sandbox.Collect] name
// them. Programs in it get those of its [Layout].
const (
	WorkspaceDir  = "/workspace"
	HomeDir       = "/home/agent"
	MCPConfigPath = "/etc/waza/mcp.json"
	// SkillsDir holds a directory for each skill.
	SkillsDir = HomeDir + "/skills"
	// GuestPath is our own executable.
	GuestPath = "/opt/waza/waza"
	// SocketPath is the runner's socket for the guest of one container, if runner and engine
	// share a machine.
	SocketPath = "/run/waza/mux"
)

// ModelHost is the name under which an agent finds its models: each provider's base
// URL is http://model/PROVIDER there.
const ModelHost = "model"

// Layout is where the programs of a container find things.
type Layout struct {
	Workspace string // of the agent's container
	MCPConfig string // the same
	Home      string // of programs; empty leaves them the one they have
	Private   string // of the agent's container: what is planned for HomeDir
	Guest     string // our own executable
	// Models is the URL that providers of models are below, where the trial has any; set
	// once [Sandbox.Listen] has returned.
	Models string
}

// ContainerLayout returns the layout of every container of an engine.
func ContainerLayout() Layout {
	return Layout{Workspace: WorkspaceDir, MCPConfig: MCPConfigPath, Home: HomeDir, Private: HomeDir, Guest: GuestPath, Models: "http://" + ModelHost}
}

// Ours returns the targets of the links that waza itself puts into the agent's workspace.
func (l Layout) Ours() []string { return []string{l.MCPConfig, l.At(SkillsDir)} }

// At returns the path at which a program finds a planned one.
func (l Layout) At(planned string) string {
	for _, dir := range []struct{ planned, actual string }{
		{WorkspaceDir, l.Workspace}, {HomeDir, l.Private}, {MCPConfigPath, l.MCPConfig}, {GuestPath, l.Guest},
	} {
		if rest, ok := strings.CutPrefix(planned, dir.planned); ok && (rest == "" || rest[0] == '/') {
			return dir.actual + rest
		}
	}
	return planned
}
