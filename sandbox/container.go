package sandbox

import (
	"fmt"

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

	// Platform is what the image must be for, as os/architecture; empty for the
	// engine's own.
	Platform string `json:"platform,omitempty"`
	// Pull is when the image is pulled, as in mcpconfig.PullPolicies; empty for
	// where it is missing.
	Pull string `json:"pull,omitempty"`
}

// Limits returns the limits, as evidence has them.
func (b Container) Limits() evidence.Limits {
	return evidence.Limits{
		CPUs: b.CPUs, Memory: b.Memory, Pids: b.Pids, OpenFiles: b.OpenFiles,
		Disk: b.Disk, Scratch: b.Scratch,
	}
}

// String names the image and the limits.
func (b Container) String() string {
	image := b.Image
	if image == "" {
		image = "waza's own"
	}
	user := ""
	if b.User != "" {
		user = ", user " + b.User
	}
	if b.Pull != "" {
		image += " (pull " + b.Pull + ")"
	}
	text := fmt.Sprintf("image %s%s, cpus %g, memory %s, disk %s, pids %d", image, user, b.CPUs, units.BytesSize(float64(b.Memory)), units.BytesSize(float64(b.Disk)), b.Pids)
	if b.Scratch != b.Disk {
		text += ", scratch " + units.BytesSize(float64(b.Scratch))
	}
	if b.OpenFiles != DefaultOpenFiles {
		text += fmt.Sprintf(", open files %d", b.OpenFiles)
	}
	return text
}
