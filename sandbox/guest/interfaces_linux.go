package guest

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// removeInterfaces removes every network interface except loopback. It needs CAP_NET_ADMIN.
func removeInterfaces() error {
	interfaces, err := net.Interfaces()
	if err != nil {
		return err
	}
	for _, i := range interfaces {
		if i.Flags&net.FlagLoopback != 0 {
			continue
		}
		if err := removeLink(i.Index); err != nil {
			return fmt.Errorf("remove the interface %s: %w", i.Name, err)
		}
	}
	return nil
}

// removeLink removes an interface (rtnetlink(7), RTM_DELLINK).
func removeLink(index int) error {
	fd, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.NETLINK_ROUTE)
	if err != nil {
		return err
	}
	defer func() { _ = unix.Close(fd) }()
	const length = unix.SizeofNlMsghdr + unix.SizeofIfInfomsg
	message := make([]byte, length)
	binary.NativeEndian.PutUint32(message[0:], length)
	binary.NativeEndian.PutUint16(message[4:], unix.RTM_DELLINK)
	binary.NativeEndian.PutUint16(message[6:], unix.NLM_F_REQUEST|unix.NLM_F_ACK)
	binary.NativeEndian.PutUint32(message[unix.SizeofNlMsghdr+4:], uint32(index))
	if err := unix.Sendto(fd, message, 0, &unix.SockaddrNetlink{Family: unix.AF_NETLINK}); err != nil {
		return err
	}
	answer := make([]byte, 4<<10)
	n, _, err := unix.Recvfrom(fd, answer, 0)
	if err != nil {
		return err
	}
	if n < unix.SizeofNlMsghdr+4 {
		return fmt.Errorf("the kernel answers with %d bytes", n)
	}
	if code := int32(binary.NativeEndian.Uint32(answer[unix.SizeofNlMsghdr:])); code != 0 {
		return unix.Errno(-code)
	}
	return nil
}

// makeDirectories creates a directory that only this user can access in each of dirs.
func makeDirectories(dirs []string) (err error) {
	for _, dir := range dirs {
		err = errors.Join(err, os.Mkdir(filepath.Join(dir, OwnDirectory), 0o700))
	}
	return err
}

// forgetCluster removes the environment variables that Kubernetes adds to every container, so
// that programs do not see the address of its API.
func forgetCluster() {
	for _, variable := range os.Environ() {
		if name, _, _ := strings.Cut(variable, "="); strings.HasPrefix(name, "KUBERNETES_") {
			_ = os.Unsetenv(name)
		}
	}
}
