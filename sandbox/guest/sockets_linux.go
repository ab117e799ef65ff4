package guest

import (
	"errors"
	"fmt"
	"net"

	"golang.org/x/sys/unix"
)

// fewestDescriptors is the limit of open files from which a runner offers sockets. It is
// sufficient for 64 guests.
const fewestDescriptors = 64 * maxInbound

// OffersSockets reports whether the runner can pass sockets to guests on this machine.
func OffersSockets() bool {
	var limit unix.Rlimit
	return unix.Getrlimit(unix.RLIMIT_NOFILE, &limit) == nil && limit.Cur >= fewestDescriptors
}

// handSocket creates a socket pair, sends one end over control with its purpose, and returns
// the other.
func handSocket(control *net.UnixConn, use byte) (*net.UnixConn, error) {
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("socketpair: %w", err)
	}
	near, err := connOf(uintptr(pair[0]))
	if err == nil {
		if _, _, err = control.WriteMsgUnix([]byte{use}, unix.UnixRights(pair[1]), nil); err != nil {
			_ = near.Close()
		}
	}
	return near, errors.Join(err, unix.Close(pair[1]))
}

// receiveSocket returns the next socket from the runner.
func receiveSocket(control *net.UnixConn) (use byte, _ stream, err error) {
	said, rights := make([]byte, 1), make([]byte, unix.CmsgSpace(4))
	_, n, _, _, err := control.ReadMsgUnix(said, rights)
	if err != nil {
		return 0, nil, err
	}
	messages, err := unix.ParseSocketControlMessage(rights[:n])
	if err != nil {
		return 0, nil, err
	}
	if len(messages) != 1 {
		return 0, nil, errors.New("no socket came with it")
	}
	fds, err := unix.ParseUnixRights(&messages[0])
	if err != nil {
		return 0, nil, err
	}
	conn, err := connOf(uintptr(fds[0]))
	return said[0], &socketStream{UnixConn: conn}, err
}

// writeAtOnce writes what is possible without blocking, regardless of the deadline.
func writeAtOnce(conn *net.UnixConn, p []byte) (n int) {
	raw, err := conn.SyscallConn()
	if err != nil {
		return 0
	}
	_ = raw.Control(func(fd uintptr) { n, _ = unix.Write(int(fd), p) })
	return max(n, 0)
}
