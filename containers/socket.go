package containers

import (
	"errors"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/api/types/mount"

	"github.com/waza-isolate/waza/internal/defence"
	"github.com/waza-isolate/waza/sandbox"
	"github.com/waza-isolate/waza/sandbox/guest"
)

// socketDir is the pattern of the sockets' directories in the system's temporary directory.
const socketDir = "waza-mux-*"

// socket is a Unix socket for one container, in its own directory. Over a single connection to
// it, the runner passes the guest a file descriptor for each request. This is faster than
// streams through the engine's pipe, which pass a mux and four processes in each direction.
type socket struct {
	dir string
	ln  *net.UnixListener
}

// newSocket creates a socket, mounts its directory into the container, read-only, and passes
// its path to the guest. It returns nil if the engine is not on this machine, or the socket
// cannot be created. The guest then uses the pipe.
func newSocket(daemon string, conf *container.Config, host *container.HostConfig) *socket {
	if !strings.HasPrefix(daemon, "unix://") || !guest.OffersSockets() {
		return nil
	}
	parent, err := os.MkdirTemp("", socketDir) // only accessible to this user
	if err != nil {
		return nil
	}
	s := &socket{dir: parent}
	// The container's user is another one, and gets access to the inner directory by the mount.
	inner := filepath.Join(parent, "s")
	path := filepath.Join(inner, filepath.Base(sandbox.SocketPath))
	if err = os.Mkdir(inner, 0o755); err == nil {
		s.ln, err = listenIn(inner, filepath.Base(path))
	}
	if err = errors.Join(err, os.Chmod(inner, 0o755), os.Chmod(path, 0o666)); err != nil {
		s.remove()
		return nil
	}
	host.Mounts = append(host.Mounts[:len(host.Mounts):len(host.Mounts)], mount.Mount{
		Type: mount.TypeBind, Source: inner, Target: filepath.Dir(sandbox.SocketPath), ReadOnly: true,
	})
	conf.Cmd = []string{sandbox.SocketPath}
	return s
}

// listenIn listens on a socket in a directory, by a path without the directory's name. The kernel
// shows the path of the listener to the container that is connected to it (/proc/net/unix).
func listenIn(dir, name string) (*net.UnixListener, error) {
	d, err := os.Open(dir)
	if err != nil {
		return nil, err
	}
	defer func() { _ = d.Close() }()
	at := "/proc/self/fd/" + strconv.Itoa(int(d.Fd()))
	if !defence.HiddenNames {
		at = dir
	}
	ln, err := net.ListenUnix("unix", &net.UnixAddr{Net: "unix", Name: at + "/" + name})
	if err == nil {
		ln.SetUnlinkOnClose(false) // the descriptor in its path may be another file by then
	}
	return ln, err
}

// listener returns the listener of a socket, or nil.
func (s *socket) listener() *net.UnixListener {
	if s == nil {
		return nil
	}
	return s.ln
}

// remove removes the socket and its directory. Connections stay open.
func (s *socket) remove() {
	if s == nil {
		return
	}
	if s.ln != nil {
		_ = s.ln.Close()
	}
	_ = os.RemoveAll(s.dir)
}

// removeOldSockets removes the sockets of runners that were killed while starting a container.
func removeOldSockets() error {
	dirs, err := filepath.Glob(filepath.Join(os.TempDir(), socketDir))
	for _, dir := range dirs {
		if info, failed := os.Lstat(dir); failed == nil && time.Since(info.ModTime()) > 2*startTimeout {
			if failed := os.RemoveAll(dir); !errors.Is(failed, os.ErrPermission) { // it may be another user's
				err = errors.Join(err, failed)
			}
		}
	}
	return err
}
