package observe

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"net/netip"
)

// Address families of the kernel, the same on all architectures.
const (
	familyNone    = 0
	familyUnix    = 1
	familyINET    = 2
	familyINET6   = 10
	familyNetlink = 16
)

// Address parses a struct sockaddr. family is "unix", "ip" or "family-N". It is empty for
// addresses that connect to nothing: netlink, and AF_UNSPEC, which dissolves a connection.
func Address(raw []byte) (family, address string) {
	if len(raw) < 2 {
		return "", ""
	}
	switch number := binary.NativeEndian.Uint16(raw); number {
	case familyNone, familyNetlink:
		return "", ""
	case familyUnix:
		return "unix", unixAddress(raw[2:])
	case familyINET:
		if len(raw) >= 8 {
			return "ip", netip.AddrPortFrom(netip.AddrFrom4([4]byte(raw[4:8])), port(raw)).String()
		}
		return "ip", "cut short"
	case familyINET6:
		if len(raw) >= 24 {
			return "ip", netip.AddrPortFrom(netip.AddrFrom16([16]byte(raw[8:24])).Unmap(), port(raw)).String()
		}
		return "ip", "cut short"
	default:
		return fmt.Sprintf("family-%d", number), fmt.Sprintf("%x", raw[2:min(len(raw), 32)])
	}
}

func port(raw []byte) uint16 { return binary.BigEndian.Uint16(raw[2:]) }

// unixAddress returns a path, or an abstract name with a leading @ as in ss(8).
func unixAddress(raw []byte) string {
	if len(raw) > 0 && raw[0] == 0 {
		return "@" + string(bytes.TrimRight(raw[1:], "\x00"))
	}
	path, _, _ := bytes.Cut(raw, []byte{0})
	return string(path)
}
