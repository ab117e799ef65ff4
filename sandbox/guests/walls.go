package guests

import (
	"errors"

	"github.com/waza-isolate/waza/internal/defence"
	"github.com/waza-isolate/waza/sandbox/guest"
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
