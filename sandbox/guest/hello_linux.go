package guest

import (
	"errors"
	"net"
	"os"
	"runtime"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// describeContainer returns the container's walls as seen from inside.
func describeContainer() (Hello, error) {
	// That of a thread that watches programs has a filter of its own.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	status, err := os.ReadFile("/proc/thread-self/status")
	if err != nil {
		return Hello{}, err
	}
	fields := map[string]string{}
	for line := range strings.Lines(string(status)) {
		key, value, _ := strings.Cut(line, ":")
		fields[key] = strings.TrimSpace(value)
	}
	caps, err := strconv.ParseUint(fields["CapBnd"], 16, 64)
	if err != nil {
		return Hello{}, err
	}
	interfaces, err := net.Interfaces()
	if err != nil {
		return Hello{}, err
	}
	return Hello{
		UID:              os.Getuid(),
		Capabilities:     caps,
		NoNewPrivileges:  fields["NoNewPrivs"] == "1",
		Filtered:         fields["Seccomp"] == "2",
		ReadOnlyRoot:     readOnlyRoot(),
		UserNamespace:    hasUserNamespace(),
		Datagrams:        opensDatagrams(),
		ChoosesInterface: choosesInterface(),
		Interfaces:       len(interfaces),
	}, nil
}

func readOnlyRoot() bool {
	var fs unix.Statfs_t
	return unix.Statfs("/", &fs) == nil && fs.Flags&unix.ST_RDONLY != 0
}

// hasUserNamespace reports whether some user of the container has another number outside
// (user_namespaces(7)).
func hasUserNamespace() bool {
	mapped, err := os.ReadFile("/proc/self/uid_map")
	return err == nil && mapsUsers(string(mapped))
}

func mapsUsers(uidMap string) bool {
	fields := strings.Fields(uidMap)
	return len(fields) != 3 || fields[0] != fields[1]
}

func opensDatagrams() bool {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return false
	}
	_ = unix.Close(fd)
	return true
}

// choosesInterface tries the socket options that bypass the routing table.
func choosesInterface() bool {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return false
	}
	defer func() { _ = unix.Close(fd) }()
	return errors.Join(
		refused(unix.SetsockoptString(fd, unix.SOL_SOCKET, unix.SO_BINDTODEVICE, "lo")),
		refused(unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_DONTROUTE, 1)),
		refused(unix.SetsockoptInt(fd, unix.IPPROTO_IP, unix.IP_UNICAST_IF, 1<<24)),
	) != nil
}

// refused returns nil if err is a denial, and an error otherwise.
func refused(err error) error {
	if errors.Is(err, unix.EACCES) || errors.Is(err, unix.EPERM) {
		return nil
	}
	return errors.New("not refused")
}
