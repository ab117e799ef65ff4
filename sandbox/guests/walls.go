package guests

import (
	"errors"
	"fmt"
	"strings"

	"github.com/waza-isolate/waza/evidence"
	"github.com/waza-isolate/waza/internal/defence"
	"github.com/waza-isolate/waza/runner/plan"
	"github.com/waza-isolate/waza/sandbox"
	"github.com/waza-isolate/waza/sandbox/guest"
	"github.com/waza-isolate/waza/sandbox/observe"
)

// Walls is what differs between containers that are to have the same walls.
type Walls struct {
	Interface bool // it may have a network interface beside loopback
	OurFilter bool // its seccomp filter is waza's own
	OwnKernel bool // its runtime may have a kernel between it and the host's
}

// CheckWalls compares what a guest found around itself with what was asked for.
// Engines ignore options they do not know. A runtime with a kernel of its own
// (gVisor's) stands in for the seccomp filter, and shows none.
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

// Guarantees returns what is enforced in a trial's containers by every backend. Runtime names one
// that may have a kernel of its own; empty for none. Seen is what each container's guest can see
// of its use; nil for nothing.
func Guarantees(t *plan.Trial, backend, runtime string, seen []*observe.Usage) evidence.Guarantees {
	g := evidence.Guarantees{
		Backend: backend, Network: t.Network, Missing: unseen(seen),
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
	if !t.ServersOnly {
		g.Enforced = append(g.Enforced, "the agent reaches its servers through the runner alone")
	}
	return g
}

// SharedUser says what is not enforced of a container that runs as user, as "uid:gid", because
// somebody insists on that, the eval or its image.
func SharedUser(container, user, insists string) string {
	why := fmt.Sprintf("%s runs as the user that %s names: what the kernel counts by user it shares with other containers of that user", container, insists)
	if strings.HasSuffix(user, ":0") {
		why += ", and it is in the group of root"
	}
	return why
}

// Breach returns how a container ended whose guest broke the rules, and reports whether it did.
func Breach(g *guest.Guest) (sandbox.Exit, bool) {
	err := g.Err()
	return sandbox.Exit{Cause: sandbox.ByBreach, Message: fmt.Sprintf("what came from process 1 of its container broke the rules: %v", err)}, errors.Is(err, guest.ErrProtocol)
}

// ByItself returns how a container ended whose guest went away with err, or does not answer if
// that is nil, when nobody else is to blame.
func ByItself(err error) sandbox.Exit {
	how := "does not answer"
	if err != nil {
		how = "went away: " + err.Error()
	}
	return sandbox.Exit{Cause: sandbox.ByItself, Message: "process 1 of its container " + how}
}
