package probe

import (
	"context"
	"encoding/binary"
	"errors"
	"net/netip"
	"time"

	"golang.org/x/sys/unix"
)

// rawSocket sends datagrams with headers of its own making.
func rawSocket(_ context.Context, a Aims) result {
	return a.forge(RawSocket, unix.AF_INET, unix.SOCK_RAW, unix.IPPROTO_RAW, func(fd int, packet []byte, aim netip.Addr) error {
		return unix.Sendto(fd, packet, 0, &unix.SockaddrInet4{Addr: aim.As4()})
	}, bindToDevice)
}

// packetSocket puts datagrams onto the link, to whoever is there.
func packetSocket(_ context.Context, a Aims) result {
	return a.forge(PacketSocket, unix.AF_PACKET, unix.SOCK_DGRAM, 0, func(fd int, packet []byte, _ netip.Addr) error {
		to, err := everybody(unix.ETH_P_IP)
		if err != nil {
			return err
		}
		return unix.Sendto(fd, packet, 0, to)
	}, nil)
}

// everybody is the link's broadcast address.
func everybody(protocol uint16) (*unix.SockaddrLinklayer, error) {
	i, _, err := ownInterface()
	if err != nil {
		return nil, err
	}
	return &unix.SockaddrLinklayer{
		Protocol: network16(protocol), Ifindex: i.Index, Halen: 6, Addr: [8]byte{255, 255, 255, 255, 255, 255},
	}, nil
}

// network16 is n as the kernel wants it in a field of network byte order.
func network16(n uint16) uint16 {
	return binary.NativeEndian.Uint16(binary.BigEndian.AppendUint16(nil, n))
}

func (a Aims) forge(name string, family, kind, protocol int, send func(fd int, packet []byte, aim netip.Addr) error, prepare func(fd int) error) result {
	if a.Host.UDP4 == 0 {
		return untried("nothing of ours listens on the host")
	}
	_, own, missing := ownInterface()
	r := withSocket(family, kind, protocol, func(fd int) error {
		if missing != nil {
			return nil // a socket like this is refused whether there is a link or not
		}
		if prepare != nil {
			if err := prepare(fd); err != nil {
				return err
			}
		}
		for _, aim := range a.Host.over(4) {
			to := netip.MustParseAddr(aim)
			if err := send(fd, udpPacket(own, to, a.Host.UDP4, Payload(a, name, aim)), to); err != nil {
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

// udpPacket is a datagram with its IP header.
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

// arp asks who has the host's addresses, and whether anybody answers.
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

// awaitARP waits for an answer (RFC 826: operation 2).
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
