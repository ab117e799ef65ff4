package probe

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

func linkAttempts() []attempt {
	return []attempt{
		{"host-udp", func(_ context.Context, a Aims) result {
			return a.sendAll(slices.Concat(a.Host.over(4), gateways()), nil)
		}},
		{"broadcast-udp", func(_ context.Context, a Aims) result {
			return a.sendAll([]string{"255.255.255.255"}, fromOwnAddress)
		}},
		{"multicast-udp", func(_ context.Context, a Aims) result {
			return a.sendAll([]string{"224.0.0.1"}, fromOwnAddress)
		}},
		{"device-udp", func(_ context.Context, a Aims) result { return a.sendAll(a.Host.over(4), bindToDevice) }},
		{"unicast-if-udp", func(_ context.Context, a Aims) result {
			return a.sendAll(a.Host.over(4), unicastInterface)
		}},
		{"pktinfo-udp", packetInfo},
		{"raw-socket", rawSocket},
		{"packet-socket", packetSocket},
		{"arp", arp},
		{"ping", ping},
		{"marked-packets", func(context.Context, Aims) result {
			return withSocket(unix.AF_INET, unix.SOCK_STREAM, 0, func(fd int) error {
				return unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_MARK, 1)
			}, "packets can be marked, as the host's rules tell them apart by")
		}},
		{"vsock", vsock},
		{"routes", routes},
	}
}

// vsock tries to open a socket to the hypervisor, also with a family number that the kernel
// truncates: seccomp compares more bits than the kernel reads.
func vsock(context.Context, Aims) result {
	const high = 1 << 32
	fd, _, errno := unix.Syscall(unix.SYS_SOCKET, unix.AF_VSOCK|high, unix.SOCK_STREAM, 0)
	if errno == 0 {
		_ = unix.Close(int(fd))
		return out("a socket to the hypervisor can be opened, past the filter")
	}
	return withSocket(unix.AF_VSOCK, unix.SOCK_STREAM, 0, nil, "a socket to the hypervisor can be opened")
}

// withSocket opens a socket and calls do, which may be nil.
func withSocket(family, kind, protocol int, do func(fd int) error, done string) result {
	fd, err := unix.Socket(family, kind|unix.SOCK_CLOEXEC, protocol)
	if err != nil {
		return refused(fmt.Errorf("socket: %w", err))
	}
	defer func() { _ = unix.Close(fd) }()
	if do != nil {
		if err := do(fd); err != nil {
			return refused(err)
		}
	}
	return result{Out, done}
}

// sendAll sends a datagram to each address, from a socket prepared by prepare.
func (a Aims) sendAll(aims []string, prepare func(fd int) error) result {
	return a.sendEach(aims, prepare, func(fd int, aim string, to *unix.SockaddrInet4) error {
		return unix.Sendto(fd, []byte(Payload(a, a.attack, aim)), 0, to)
	})
}

// sendEach calls send for each address, with a socket prepared by prepare.
func (a Aims) sendEach(aims []string, prepare func(fd int) error, send func(fd int, aim string, to *unix.SockaddrInet4) error) result {
	if a.Host.UDP4 == 0 {
		return untried("nothing of ours listens on the host")
	}
	sent := 0
	errs := make([]error, 0, len(aims))
	for _, aim := range aims {
		err := a.datagram(aim, prepare, func(fd int, to *unix.SockaddrInet4) error { return send(fd, aim, to) })
		if err == nil {
			sent++
			continue
		}
		errs = append(errs, err)
	}
	switch {
	case sent > 0:
		return result{Sent, fmt.Sprintf("%d datagrams went out", sent)}
	case len(errs) == 0:
		return refused(errors.New("nowhere to aim at"))
	}
	return result{Refused, summary(errs)}
}

func (a Aims) datagram(aim string, prepare func(fd int) error, send func(fd int, to *unix.SockaddrInet4) error) error {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer func() { _ = unix.Close(fd) }()
	if prepare != nil {
		if err := prepare(fd); err != nil {
			return err
		}
	}
	addr, err := netip.ParseAddr(aim)
	if err != nil {
		return err
	}
	return send(fd, &unix.SockaddrInet4{Addr: addr.As4(), Port: a.Host.UDP4})
}

var errNoInterface = errors.New("no interface")

// ownInterface returns the first interface except loopback, with its IPv4 address.
func ownInterface() (*net.Interface, netip.Addr, error) {
	all, err := net.Interfaces()
	if err != nil {
		return nil, netip.Addr{}, err
	}
	for _, i := range all {
		addrs, _ := i.Addrs()
		for _, addr := range addrs {
			prefix, err := netip.ParsePrefix(addr.String())
			if err == nil && prefix.Addr().Is4() && i.Flags&net.FlagLoopback == 0 {
				return &i, prefix.Addr(), nil
			}
		}
	}
	return nil, netip.Addr{}, errNoInterface
}

func bindToDevice(fd int) error {
	i, _, err := ownInterface()
	if err != nil {
		return err
	}
	if err := unix.SetsockoptString(fd, unix.SOL_SOCKET, unix.SO_BINDTODEVICE, i.Name); err != nil {
		return err
	}
	return unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_DONTROUTE, 1)
}

func unicastInterface(fd int) error {
	i, _, err := ownInterface()
	if err != nil {
		return err
	}
	index := binary.NativeEndian.Uint32(binary.BigEndian.AppendUint32(nil, uint32(i.Index)))
	if err := unix.SetsockoptInt(fd, unix.IPPROTO_IP, unix.IP_UNICAST_IF, int(int32(index))); err != nil {
		return err
	}
	return unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_DONTROUTE, 1)
}

// fromOwnAddress binds to the container's address, which determines the interface for broadcast
// and multicast.
func fromOwnAddress(fd int) error {
	_, own, err := ownInterface()
	if err != nil {
		return err
	}
	if err := unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_BROADCAST, 1); err != nil {
		return err
	}
	return unix.Bind(fd, &unix.SockaddrInet4{Addr: own.As4()})
}

// packetInfo names the interface in a control message, which seccomp cannot inspect.
func packetInfo(_ context.Context, a Aims) result {
	return a.sendEach(a.Host.over(4), nil, func(fd int, aim string, to *unix.SockaddrInet4) error {
		i, _, err := ownInterface()
		if err != nil {
			return err
		}
		control := make([]byte, unix.CmsgSpace(unix.SizeofInet4Pktinfo))
		header := (*unix.Cmsghdr)(unsafe.Pointer(&control[0]))
		header.Level, header.Type = unix.IPPROTO_IP, unix.IP_PKTINFO
		header.SetLen(unix.CmsgLen(unix.SizeofInet4Pktinfo))
		(*unix.Inet4Pktinfo)(unsafe.Pointer(&control[unix.CmsgLen(0)])).Ifindex = int32(i.Index)
		return unix.Sendmsg(fd, []byte(Payload(a, a.attack, aim)), control, to, unix.MSG_DONTROUTE)
	})
}

// ping sends an ICMP echo to all possible addresses of the host.
func ping(_ context.Context, a Aims) result {
	return withSocket(unix.AF_INET, unix.SOCK_DGRAM, unix.IPPROTO_ICMP, func(fd int) error {
		if err := setTimeout(fd); err != nil {
			return err
		}
		if _, _, err := ownInterface(); err != nil {
			return err
		}
		request := []byte{8, 0, 0, 0, 0, 1, 0, 1}
		for _, aim := range slices.Concat(a.Host.over(4), gateways()) {
			if addr, err := netip.ParseAddr(aim); err == nil {
				_ = unix.Sendto(fd, request, 0, &unix.SockaddrInet4{Addr: addr.As4()})
			}
		}
		_, _, err := unix.Recvfrom(fd, make([]byte, maxPayload), 0)
		if errors.Is(err, unix.EAGAIN) {
			return errors.New("no answer")
		}
		return err
	}, "the host answers")
}

// setTimeout sets a timeout for reads.
func setTimeout(fd int) error {
	wait := unix.NsecToTimeval(patience.Nanoseconds())
	return unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &wait)
}

// routes tries to add a route.
func routes(context.Context, Aims) result {
	fd, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.NETLINK_ROUTE)
	if err != nil {
		return refused(fmt.Errorf("socket: %w", err))
	}
	defer func() { _ = unix.Close(fd) }()
	if err := errors.Join(setTimeout(fd), unix.Bind(fd, &unix.SockaddrNetlink{Family: unix.AF_NETLINK})); err != nil {
		return untried(err.Error())
	}
	target := []byte{198, 51, 100, 0}
	route := []byte{unix.AF_INET, 24, 0, 0, unix.RT_TABLE_MAIN, unix.RTPROT_BOOT, unix.RT_SCOPE_UNIVERSE, unix.RTN_BLACKHOLE, 0, 0, 0, 0}
	route = append(route, 8, 0, unix.RTA_DST, 0)
	route = append(route, target...)
	const create = unix.NLM_F_CREATE | unix.NLM_F_EXCL
	if err := ask(fd, unix.RTM_NEWROUTE, create, route); err != nil {
		return refused(err)
	}
	_ = ask(fd, unix.RTM_DELROUTE, 0, route)
	return out("a route could be added")
}

// ask sends a netlink request and reads the acknowledgement.
func ask(fd int, kind, flags uint16, body []byte) error {
	order := binary.NativeEndian
	message := order.AppendUint32(nil, uint32(unix.NLMSG_HDRLEN+len(body)))
	message = order.AppendUint16(message, kind)
	message = order.AppendUint16(message, flags|unix.NLM_F_REQUEST|unix.NLM_F_ACK)
	message = append(message, make([]byte, 8)...)
	if err := unix.Sendto(fd, append(message, body...), 0, &unix.SockaddrNetlink{Family: unix.AF_NETLINK}); err != nil {
		return err
	}
	answer := make([]byte, 4096)
	n, _, err := unix.Recvfrom(fd, answer, 0)
	switch {
	case err != nil:
		return err
	case n < unix.NLMSG_HDRLEN+4 || order.Uint16(answer[4:]) != unix.NLMSG_ERROR:
		return errors.New("the kernel gave no answer")
	}
	if code := int32(order.Uint32(answer[unix.NLMSG_HDRLEN:])); code != 0 {
		return unix.Errno(-code)
	}
	return nil
}

// rawSocket tries to send datagrams with forged headers.
func rawSocket(_ context.Context, a Aims) result {
	return a.forge(unix.AF_INET, unix.SOCK_RAW, unix.IPPROTO_RAW, func(fd int, packet []byte, aim netip.Addr) error {
		return unix.Sendto(fd, packet, 0, &unix.SockaddrInet4{Addr: aim.As4()})
	}, bindToDevice)
}

// packetSocket tries to broadcast datagrams on the link.
func packetSocket(_ context.Context, a Aims) result {
	return a.forge(unix.AF_PACKET, unix.SOCK_DGRAM, 0, func(fd int, packet []byte, _ netip.Addr) error {
		to, err := everybody(unix.ETH_P_IP)
		if err != nil {
			return err
		}
		return unix.Sendto(fd, packet, 0, to)
	}, nil)
}

// everybody returns the link's broadcast address.
func everybody(protocol uint16) (*unix.SockaddrLinklayer, error) {
	i, _, err := ownInterface()
	if err != nil {
		return nil, err
	}
	return &unix.SockaddrLinklayer{
		Protocol: network16(protocol), Ifindex: i.Index, Halen: 6, Addr: [8]byte{255, 255, 255, 255, 255, 255},
	}, nil
}

// network16 returns n in network byte order.
func network16(n uint16) uint16 {
	return binary.NativeEndian.Uint16(binary.BigEndian.AppendUint16(nil, n))
}

func (a Aims) forge(family, kind, protocol int, send func(fd int, packet []byte, aim netip.Addr) error, prepare func(fd int) error) result {
	if a.Host.UDP4 == 0 {
		return untried("nothing of ours listens on the host")
	}
	_, own, missing := ownInterface()
	r := withSocket(family, kind, protocol, func(fd int) error {
		if missing != nil {
			return nil // whether such a socket is denied does not depend on the link
		}
		if prepare != nil {
			if err := prepare(fd); err != nil {
				return err
			}
		}
		for _, aim := range a.Host.over(4) {
			to := netip.MustParseAddr(aim)
			if err := send(fd, udpPacket(own, to, a.Host.UDP4, Payload(a, a.attack, aim)), to); err != nil {
				return err
			}
		}
		return nil
	}, "such a socket can be opened")
	if r.state == Out && missing == nil {
		return result{Out, "such a socket can be opened, and datagrams went out"}
	}
	return r
}

// udpPacket returns a UDP datagram with its IP header.
func udpPacket(from, to netip.Addr, port int, content string) []byte {
	length := 28 + len(content)
	p := []byte{0x45, 0, byte(length >> 8), byte(length), 0, 1, 0, 0, 64, unix.IPPROTO_UDP, 0, 0}
	p = append(append(p, from.AsSlice()...), to.AsSlice()...)
	var sum uint32
	for i := 0; i < len(p); i += 2 {
		sum += uint32(p[i])<<8 | uint32(p[i+1])
	}
	sum = sum&0xffff + sum>>16
	binary.BigEndian.PutUint16(p[10:], ^uint16(sum+sum>>16))
	p = binary.BigEndian.AppendUint16(p, 4242)
	p = binary.BigEndian.AppendUint16(p, uint16(port))
	p = binary.BigEndian.AppendUint16(p, uint16(8+len(content)))
	return append(append(p, 0, 0), content...)
}

// arp sends ARP requests for the host's addresses, and checks for a reply.
func arp(_ context.Context, a Aims) result {
	return withSocket(unix.AF_PACKET, unix.SOCK_DGRAM, int(network16(unix.ETH_P_ARP)), func(fd int) error {
		i, own, err := ownInterface()
		if err != nil {
			return err
		}
		to, err := everybody(unix.ETH_P_ARP)
		if err := errors.Join(err, setTimeout(fd)); err != nil {
			return err
		}
		for _, aim := range a.Host.over(4) {
			question := append([]byte{0, 1, 8, 0, 6, 4, 0, 1}, i.HardwareAddr...)
			question = append(append(question, own.AsSlice()...), 0, 0, 0, 0, 0, 0)
			if err := unix.Sendto(fd, append(question, netip.MustParseAddr(aim).AsSlice()...), 0, to); err != nil {
				return err
			}
		}
		return awaitARP(fd)
	}, "the host answers for its other addresses")
}

// awaitARP waits for an ARP reply (RFC 826: operation 2).
func awaitARP(fd int) error {
	answer := make([]byte, maxPayload)
	for until := time.Now().Add(patience); time.Now().Before(until); {
		n, _, err := unix.Recvfrom(fd, answer, 0)
		if err != nil {
			break
		}
		if n >= 28 && answer[7] == 2 {
			return nil
		}
	}
	return errors.New("no answer")
}
