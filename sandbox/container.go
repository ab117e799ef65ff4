package sandbox

import (
	"cmp"
	"fmt"
	"strings"

	"github.com/docker/go-units"

	"github.com/waza-isolate/waza/evidence"
)

// DefaultOpenFiles is the default limit of open files per process.
const DefaultOpenFiles = 4096

// DefaultShmSize is the default size of [SharedMemory] in bytes.
const DefaultShmSize = 16 << 20

// Container is a container and its limits.
type Container struct {
	Image  string  `json:"image"` // empty for the guest image, which contains nothing else
	User   string  `json:"user,omitempty"`
	CPUs   float64 `json:"cpus"`
	Memory int64   `json:"memory"` // in bytes; there is no swap in addition
	Disk   int64   `json:"disk"`   // size of each writable directory in bytes
	Pids   int64   `json:"pids"`
	// OpenFiles is the limit of open files per process; 0 for [DefaultOpenFiles].
	OpenFiles int64 `json:"open_files,omitempty"`
	// Scratch is the size of each of /tmp and home in bytes; 0 for Disk.
	Scratch int64 `json:"scratch,omitempty"`
	// ShmSize is the size of [SharedMemory] in bytes; 0 for [DefaultShmSize].
	ShmSize int64 `json:"shm_size,omitempty"`

	// NestedSandboxes lets programs add seccomp filters. The kernel compiles these in memory that is
	// limited for the whole machine.
	NestedSandboxes bool `json:"nested_sandboxes,omitempty"`

	// Platform is the required platform of the image, as os/architecture; empty for the
	// engine's.
	Platform string `json:"platform,omitempty"`
	// Pull is when the image is pulled, one of mcpconfig.PullPolicies. Empty means if it is
	// missing.
	Pull string `json:"pull,omitempty"`
}

// Limits returns the limits for evidence.
func (c Container) Limits() evidence.Limits {
	return evidence.Limits{
		CPUs: c.CPUs, Memory: c.Memory, Pids: c.Pids, OpenFiles: c.OpenFiles,
		Disk: c.Disk, Scratch: c.Scratch, ShmSize: c.ShmSize,
	}
}

// SizeOf returns the size limit of a writable directory of the container, in bytes.
func (c Container) SizeOf(dir string) int64 {
	switch dir {
	case SharedMemory:
		return cmp.Or(c.ShmSize, DefaultShmSize)
	case ScratchDir, HomeDir:
		return cmp.Or(c.Scratch, c.Disk)
	}
	return c.Disk
}

// String returns the image and the limits.
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
	if c.ShmSize != DefaultShmSize {
		text += ", /dev/shm " + units.BytesSize(float64(c.ShmSize))
	}
	if c.OpenFiles != DefaultOpenFiles {
		text += fmt.Sprintf(", open files %d", c.OpenFiles)
	}
	if c.NestedSandboxes {
		text += ", nested sandboxes"
	}
	return text
}

// Paths in the agent's container, as used in plans, [Sandbox.Put] and [Sandbox.Collect].
// Programs find these at the paths of the [Layout].
const (
	WorkspaceDir  = "/workspace"
	HomeDir       = "/home/agent"
	ScratchDir    = "/tmp"
	SharedMemory  = "/dev/shm" // writable in every container
	MCPConfigPath = "/etc/waza/mcp.json"
	// SkillsDir contains a directory for each skill.
	SkillsDir = HomeDir + "/skills"
	// GuestPath is waza's executable.
	GuestPath = "/opt/waza/waza"
	// SocketPath is the runner's socket for a container's guest, if runner and engine are on
	// the same machine.
	SocketPath = "/run/waza/mux"
)

// ModelHost is the host name of models: each provider's base URL is http://model/PROVIDER.
const ModelHost = "model"

// Layout contains the actual paths in a container.
type Layout struct {
	Workspace string // only in the agent's container
	MCPConfig string // only in the agent's container
	Home      string // HOME of programs; empty to keep theirs
	Private   string // actual path of HomeDir in the agent's container
	Guest     string // waza's executable
	// Models is the base URL of model providers, if the trial has any. It is set by
	// [Sandbox.Listen].
	Models string
}

// ContainerLayout returns the layout of a container.
func ContainerLayout() Layout {
	return Layout{Workspace: WorkspaceDir, MCPConfig: MCPConfigPath, Home: HomeDir, Private: HomeDir, Guest: GuestPath, Models: "http://" + ModelHost}
}

// Ours returns the targets of the links that waza creates in the agent's workspace.
func (l Layout) Ours() []string { return []string{l.MCPConfig, l.At(SkillsDir)} }

// At returns the actual path of a planned path.
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
