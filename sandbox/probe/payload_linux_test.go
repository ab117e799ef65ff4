package probe

import (
	"net/netip"
	"strings"
	"testing"
)

// FuzzPayload: whatever arrives at a listener, on a port that anybody may reach, it
// takes for an attack only what an attack could have sent.
func FuzzPayload(f *testing.F) {
	f.Add(Payload(Aims{Nonce: "n"}, "device-udp", "192.0.2.9"))
	f.Add("waza-probe a b")
	f.Add("\x00\xff waza-probe \n a b c")
	f.Fuzz(func(t *testing.T, line string) {
		a, ok := readPayload(line, "udp4")
		if !ok {
			return
		}
		if again := Payload(Aims{Nonce: a.Nonce}, a.Attack, a.Aim); again != strings.Join(strings.Fields(line), " ")+"\n" {
			t.Errorf("%q is read as %q", line, again)
		}
	})
}

// The header's checksum makes its sum zero (RFC 1071), or no host takes it.
func TestUDPPacket(t *testing.T) {
	p := udpPacket(netip.MustParseAddr("192.0.2.1"), netip.MustParseAddr("198.51.100.7"), 4711, "content")
	var sum uint32
	for i := 0; i < 20; i += 2 {
		sum += uint32(p[i])<<8 | uint32(p[i+1])
	}
	if sum = sum&0xffff + sum>>16; sum != 0xffff {
		t.Errorf("checksum is wrong: %x", sum)
	}
	if len(p) != int(p[2])<<8|int(p[3]) || string(p[28:]) != "content" {
		t.Errorf("packet %x", p)
	}
}
