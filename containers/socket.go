package containers

import (
	"errors"
	"net"
	"os"
	"path/filepath"
	"strings"

	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/mount"

	"github.com/waza-isolate/waza/sandbox/guest"
)

// socket is a Unix socket of one container, in a directory that nothing else has. It
// carries the mux in place of the engine's pipe, which is four processes each way.
type socket struct {
	dir string
	ln  *net.UnixListener
}

// newSocket makes a socket and mounts its directory into the container, read-only. It returns
// nil if the engine is not on this machine, or this machine has no room for a socket: the
// guest then finds none, and takes the pipe.
func newSocket(daemon string, host *container.HostConfig) *socket {
	if !strings.HasPrefix(daemon, "unix://") {
		return nil
	}
	parent, err := os.MkdirTemp("", "waza-mux-") // for this user alone
	if err != nil {
		return nil
	}
	s := &socket{dir: parent}
	// The container's user is another one, and reaches the inner directory by its mount.
	inner := filepath.Join(parent, "s")
	path := filepath.Join(inner, filepath.Base(guest.SocketPath))
	if err = os.Mkdir(inner, 0o755); err == nil {
		s.ln, err = net.ListenUnix("unix", &net.UnixAddr{Net: "unix", Name: path})
	}
	if err = errors.Join(err, os.Chmod(inner, 0o755), os.Chmod(path, 0o666)); err != nil {
		s.remove()
		return nil
	}
	host.Mounts = append(host.Mounts[:len(host.Mounts):len(host.Mounts)], mount.Mount{
		Type: mount.TypeBind, Source: inner, Target: filepath.Dir(guest.SocketPath), ReadOnly: true,
	})
	return s
}

// listener returns the listener of a socket, or nil where there is none.
func (s *socket) listener() *net.UnixListener {
	if s == nil {
		return nil
	}
	return s.ln
}

// remove removes the socket and its directory, if there are any. What is connected stays
// connected.
func (s *socket) remove() {
	if s == nil {
		return
	}
	if s.ln != nil {
		_ = s.ln.Close()
	}
	_ = os.RemoveAll(s.dir)
}
