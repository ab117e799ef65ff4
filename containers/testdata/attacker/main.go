// Command attacker tries one way out of its container and prints the result. It exits with 0 if
// the attempt was executed (only its target knows whether it arrived), and with 1 if it was
// denied.
package main

import (
	"bytes"
	"fmt"
	"net"
	"net/netip"
	"os"
	"strconv"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// payload is what the target expects.
const payload = "out"

func main() {
	attacks := map[string]func(args []string) error{
		"tcp":            tcp,
		"udp":            func(a []string) error { return udp(a, nil) },
		"udp-device":     func(a []string) error { return udp(a, bindToDevice) },
		"udp-dontroute":  func(a []string) error { return udp(a, dontRoute) },
		"udp-unicast-if": func(a []string) error { return udp(a, unicastInterface) },
		"udp-pktinfo":    packetInfo,
		"broadcast":      func(a []string) error { return udp([]string{"255.255.255.255", port(a)}, fromOwnAddress) },
		"multicast":      func(a []string) error { return udp([]string{"224.0.0.1", port(a)}, fromOwnAddress) },
		"raw":            func([]string) error { return socket(unix.AF_INET, unix.SOCK_RAW, unix.IPPROTO_UDP) },
		"packet":         func([]string) error { return socket(unix.AF_PACKET, unix.SOCK_RAW, 0) },
		"vsock":          func([]string) error { return socket(unix.AF_VSOCK, unix.SOCK_STREAM, 0) },
		"ping":           func([]string) error { return socket(unix.AF_INET, unix.SOCK_DGRAM, unix.IPPROTO_ICMP) },
		"sctp":           func([]string) error { return socket(unix.AF_INET, unix.SOCK_STREAM, unix.IPPROTO_SCTP) },
		"high-bits":      highBits,
		"io-uring":       ioUring,
		"fd":             func(a []string) error { return openFile("/proc/"+a[0]+"/fd/0", os.O_WRONLY) },
		"mem":            func(a []string) error { return openFile("/proc/"+a[0]+"/mem", os.O_RDWR) },
		"ptrace":         ptrace,
		"freeze":         freeze,
		"signals":        signals,
		"resolve":        resolve,
		"sleep":          sleep,
	}
	if len(os.Args) < 2 || attacks[os.Args[1]] == nil {
		fmt.Println("no such attack")
		os.Exit(2)
	}
	if err := attacks[os.Args[1]](os.Args[2:]); err != nil {
		fmt.Println("refused:", err)
		os.Exit(1)
	}
	fmt.Println("carried out")
}

func port(args []string) string { return args[len(args)-1] }

func tcp(args []string) error {
	conn, err := net.DialTimeout("tcp", net.JoinHostPort(args[0], args[1]), 2*time.Second)
	if err != nil {
		return err
	}
	_, err = conn.Write([]byte(payload))
	return err
}

// udp sends one datagram to ADDRESS PORT from a socket prepared by prepare.
func udp(args []string, prepare func(fd int) error) error {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM, 0)
	if err != nil {
		return err
	}
	if prepare != nil {
		if err := prepare(fd); err != nil {
			return err
		}
	}
	to, err := target(args)
	if err != nil {
		return err
	}
	return unix.Sendto(fd, []byte(payload), 0, to)
}

func target(args []string) (*unix.SockaddrInet4, error) {
	addr, err := netip.ParseAddr(args[0])
	if err != nil {
		return nil, err
	}
	number, err := strconv.Atoi(args[1])
	return &unix.SockaddrInet4{Addr: addr.As4(), Port: number}, err
}

func bindToDevice(fd int) error {
	if err := unix.SetsockoptString(fd, unix.SOL_SOCKET, unix.SO_BINDTODEVICE, "eth0"); err != nil {
		return err
	}
	return dontRoute(fd)
}

func dontRoute(fd int) error { return unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_DONTROUTE, 1) }

func unicastInterface(fd int) error {
	index, err := interfaceIndex()
	if err != nil {
		return err
	}
	return unix.SetsockoptInt(fd, unix.IPPROTO_IP, unix.IP_UNICAST_IF, index<<24)
}

func interfaceIndex() (int, error) {
	eth0, err := net.InterfaceByName("eth0")
	if err != nil {
		return 0, err
	}
	return eth0.Index, nil
}

// fromOwnAddress binds to the container's address, which determines the interface for broadcast
// and multicast.
func fromOwnAddress(fd int) error {
	eth0, err := net.InterfaceByName("eth0")
	if err != nil {
		return err
	}
	addrs, err := eth0.Addrs()
	if err != nil || len(addrs) == 0 {
		return fmt.Errorf("no address: %w", err)
	}
	own := netip.MustParsePrefix(addrs[0].String()).Addr()
	if err := unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_BROADCAST, 1); err != nil {
		return err
	}
	return unix.Bind(fd, &unix.SockaddrInet4{Addr: own.As4()})
}

// packetInfo names the interface in a control message, which seccomp cannot inspect.
func packetInfo(args []string) error {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM, 0)
	if err != nil {
		return err
	}
	index, err := interfaceIndex()
	if err != nil {
		return err
	}
	to, err := target(args)
	if err != nil {
		return err
	}
	control := make([]byte, unix.CmsgSpace(unix.SizeofInet4Pktinfo))
	header := (*unix.Cmsghdr)(unsafe.Pointer(&control[0]))
	header.Level, header.Type = unix.IPPROTO_IP, unix.IP_PKTINFO
	header.SetLen(unix.CmsgLen(unix.SizeofInet4Pktinfo))
	(*unix.Inet4Pktinfo)(unsafe.Pointer(&control[unix.CmsgLen(0)])).Ifindex = int32(index)
	return unix.Sendmsg(fd, []byte(payload), control, to, 0)
}

func socket(family, kind, protocol int) error {
	_, err := unix.Socket(family, kind, protocol)
	return err
}

// highBits requests a datagram socket and SO_BINDTODEVICE with bits set that the kernel
// ignores.
func highBits([]string) error {
	const high = 1 << 32
	if _, _, errno := unix.Syscall(unix.SYS_SOCKET, unix.AF_INET|high, unix.SOCK_DGRAM|high, 0); errno == 0 {
		return nil
	}
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM, 0)
	if err != nil {
		return err
	}
	name := []byte("eth0\x00")
	_, _, errno := unix.Syscall6(unix.SYS_SETSOCKOPT, uintptr(fd), unix.SOL_SOCKET|high, unix.SO_BINDTODEVICE|high,
		uintptr(unsafe.Pointer(&name[0])), uintptr(len(name)), 0)
	if errno == 0 {
		return nil
	}
	return errno
}

func ioUring([]string) error {
	var params [120]byte
	_, _, errno := unix.Syscall(unix.SYS_IO_URING_SETUP, 4, uintptr(unsafe.Pointer(&params[0])), 0)
	if errno != 0 {
		return errno
	}
	return nil
}

func openFile(path string, flags int) error {
	_, err := os.OpenFile(path, flags, 0)
	return err
}

func ptrace(args []string) error {
	pid, err := strconv.Atoi(args[0])
	if err != nil {
		return err
	}
	return unix.PtraceAttach(pid)
}

// freeze stops a process and checks whether it has stopped.
func freeze(args []string) error {
	pid, err := strconv.Atoi(args[0])
	if err != nil {
		return err
	}
	if err := unix.Kill(pid, unix.SIGSTOP); err != nil {
		return err
	}
	for range 50 {
		stat, err := os.ReadFile("/proc/" + args[0] + "/stat")
		if err != nil {
			return err
		}
		if bytes.Contains(stat, []byte(") T ")) {
			return nil
		}
		time.Sleep(10 * time.Millisecond)
	}
	return fmt.Errorf("process %d goes on", pid)
}

// signals sends a process every signal that can have a handler.
func signals(args []string) error {
	pid, err := strconv.Atoi(args[0])
	if err != nil {
		return err
	}
	for number := unix.Signal(1); number < 65; number++ {
		if number == unix.SIGKILL || number == unix.SIGSTOP {
			continue
		}
		if err := unix.Kill(pid, number); err != nil {
			return nil // it is gone
		}
	}
	return unix.Kill(pid, unix.SIGCONT) // a stopped process receives the others now
}

func resolve(args []string) error {
	_, err := net.LookupHost(args[0])
	return err
}

// sleep is an ordinary process as a target for attacks. It prints its pid.
func sleep([]string) error {
	fmt.Println(os.Getpid())
	time.Sleep(time.Minute)
	return nil
}
