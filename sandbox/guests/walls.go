package guests

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/waza-isolate/waza/evidence"
	"github.com/waza-isolate/waza/internal/defence"
	"github.com/waza-isolate/waza/sandbox"
	"github.com/waza-isolate/waza/sandbox/guest"
	"github.com/waza-isolate/waza/sandbox/observe"
)

// Walls are the walls that differ between containers.
type Walls struct {
	Interface bool // may have a network interface besides loopback
	OurFilter bool // has waza's own seccomp filter
	OwnKernel bool // its runtime may have its own kernel
	OwnUsers  bool // has a user namespace
}

// CheckWalls compares a guest's description of its container with the walls that were
// requested, since engines ignore options that they do not know. A runtime with its own kernel,
// such as gVisor's, replaces the seccomp filter and does not report one.
func CheckWalls(h guest.Hello, w Walls) error {
	var broken []error
	refuse := func(bad bool, what string) {
		if defence.CheckedWalls && bad {
			broken = append(broken, errors.New(what))
		}
	}
	refuse(h.UID == 0, "runs as root; name another user")
	refuse(h.Capabilities != 0, "has capabilities left")
	refuse(!h.NoNewPrivileges, "may gain privileges")
	refuse(!h.ReadOnlyRoot, "has a writable root")
	refuse(!h.Filtered && !w.OwnKernel, "has no seccomp filter")
	refuse(w.OurFilter && h.Datagrams, "may send datagrams")
	refuse(w.OurFilter && h.ChoosesInterface, "may bind to an interface")
	refuse(!w.Interface && h.Interfaces > 1, "has a network interface")
	refuse(w.OwnUsers && !h.UserNamespace, "has no user namespace")
	return errors.Join(broken...)
}

// Command returns the command line of process 1 of a container.
func Command(c sandbox.Container) []string {
	if c.NestedSandboxes {
		return []string{sandbox.GuestPath, "guest", guest.NestedSandboxes}
	}
	return []string{sandbox.GuestPath, "guest"}
}

// CommonGuarantees returns what every backend enforces in the containers. runtime names one that
// may have its own kernel, or is empty.
func (s *Sandbox) CommonGuarantees(backend, runtime string) evidence.Guarantees {
	var seen []*observe.Usage
	for _, c := range s.containers {
		seen = append(seen, c.meter.last())
	}
	g := evidence.Guarantees{
		Backend: backend, Network: s.Spec.Network, Missing: unseen(seen),
		Enforced: []string{
			"names resolve inside the trial only",
			"containers run without root, capabilities or new privileges, on a read-only root",
			"containers end with the runner",
		},
	}
	if runtime == "" {
		g.Enforced = append(g.Enforced, "containers run under a seccomp filter")
	} else {
		g.Missing = append(g.Missing, "the seccomp filter of containers could not be seen under the "+runtime)
	}
	for _, c := range s.Spec.Containers {
		if own := s.containers[c.Name]; own != nil {
			g.Missing = append(g.Missing, oversized(c, own.meter.last())...)
		}
		if c.NestedSandboxes {
			g.Missing = append(g.Missing, c.Name+" has nested_sandboxes: its programs can use up the machine's memory for compiled filters (bpf_jit_limit), which containers share")
		}
	}
	if s.Spec.HasAgent() {
		g.Enforced = append(g.Enforced, "the agent reaches its servers through the runner alone")
	}
	return g
}

// sizeSlack is how much larger than its limit a directory may be, since kernels round up to whole
// pages.
const sizeSlack = 64 << 10

// oversized returns which directories of a container have more space than their limits, which shows
// that the kernel ignores the limits. seen is the container's last known usage; may be nil.
func oversized(c sandbox.ContainerSpec, seen *observe.Usage) (missing []string) {
	if seen == nil {
		return nil
	}
	for _, dir := range slices.Sorted(maps.Keys(seen.Disks)) {
		if size, limit := seen.Disks[dir].Size, c.SizeOf(dir); size >= limit+sizeSlack {
			missing = append(missing, fmt.Sprintf("%s of %s holds %d bytes in place of %d: the limit has no effect there", dir, c.Name, size, limit))
		}
	}
	return missing
}

// SharedUser describes what is not enforced for a container that runs as user, "uid:gid", because
// insists, the eval or its image, requires that user.
func SharedUser(container, user, insists string) string {
	why := fmt.Sprintf("%s runs as the user that %s names, and shares the kernel's limits by user with other containers of that user", container, insists)
	if strings.HasSuffix(user, ":0") {
		why += ", and it is in the group of root"
	}
	return why
}

// SharedOwner describes what is not enforced for containers, named by who, whose user namespaces
// have the same owner. The kernel also charges the owner of a user namespace (ucounts,
// kernel/ucount.c of Linux).
func SharedOwner(who string) string {
	return who + " share the kernel's limits of inotify, timers and message queues, which also count for the user who owns their user namespaces"
}

// Breach returns the exit of a container whose guest violated the protocol, and reports whether
// it did.
func Breach(g *guest.Guest) (sandbox.Exit, bool) {
	err := g.Err()
	return sandbox.Exit{Cause: sandbox.ByBreach, Message: fmt.Sprintf("what came from process 1 of its container broke the rules: %v", err)}, errors.Is(err, guest.ErrProtocol)
}

// ByItself returns the exit of a container whose guest exited with err or, if err is nil, does not
// answer. The caller must have ruled out that somebody else is to blame.
func ByItself(err error) sandbox.Exit {
	how := "does not answer"
	if err != nil {
		how = "went away: " + err.Error()
	}
	return sandbox.Exit{Cause: sandbox.ByItself, Message: "process 1 of its container " + how}
}
