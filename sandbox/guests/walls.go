package guests

import (
	"errors"
	"fmt"
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
	return errors.Join(broken...)
}

// CommonGuarantees returns what every backend enforces in the containers. runtime names one that
// may have its own kernel, or is empty.
func (s *Sandbox) CommonGuarantees(backend, runtime string) evidence.Guarantees {
	var seen []*observe.Usage
	for _, c := range s.containers {
		seen = append(seen, c.meter.last())
	}
	g := evidence.Guarantees{
		Backend: backend, Network: s.Trial.Network, Missing: unseen(seen),
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
	if !s.Trial.ServersOnly {
		g.Enforced = append(g.Enforced, "the agent reaches its servers through the runner alone")
	}
	return g
}

// SharedUser describes what is not enforced for a container that runs as user, "uid:gid",
// because the eval or its image requires that.
func SharedUser(container, user, insists string) string {
	why := fmt.Sprintf("%s runs as the user that %s names: what the kernel counts by user it shares with other containers of that user", container, insists)
	if strings.HasSuffix(user, ":0") {
		why += ", and it is in the group of root"
	}
	return why
}

// Breach returns the exit of a container whose guest violated the protocol, and reports whether
// it did.
func Breach(g *guest.Guest) (sandbox.Exit, bool) {
	err := g.Err()
	return sandbox.Exit{Cause: sandbox.ByBreach, Message: fmt.Sprintf("what came from process 1 of its container broke the rules: %v", err)}, errors.Is(err, guest.ErrProtocol)
}

// ByItself returns the exit of a container whose guest exited with err or, if err is nil, does
// not answer, if nobody else is to blame.
func ByItself(err error) sandbox.Exit {
	how := "does not answer"
	if err != nil {
		how = "went away: " + err.Error()
	}
	return sandbox.Exit{Cause: sandbox.ByItself, Message: "process 1 of its container " + how}
}
