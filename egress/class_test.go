package egress

import (
	"net/netip"
	"testing"
)

func TestClass(t *testing.T) {
	for want, addrs := range map[string][]string{
		"": {"8.8.8.8", "1.1.1.1", "172.15.255.255", "172.32.0.1", "100.63.255.255", "100.128.0.1", "169.253.1.1", "198.17.255.255", "223.255.255.255", "192.0.1.1",
			"2606:4700::1111", "2a00::1", "::ffff:8.8.8.8", "64:ff9b::8.8.8.8", "2002:0808:0808::1"},
		"loopback":                   {"127.0.0.1", "127.255.255.255", "::1", "::ffff:127.0.0.1", "64:ff9b::127.0.0.1", "2002:7f00:0001::", "::127.0.0.1"},
		"unspecified":                {"0.0.0.0", "0.1.2.3", "::", "::ffff:0.0.0.0", "64:ff9b::"},
		"private":                    {"10.0.0.1", "172.16.0.1", "172.31.255.255", "192.168.1.1", "fc00::1", "fd12:3456::1", "fec0::1", "::ffff:10.1.2.3", "64:ff9b::a00:1", "64:ff9b:1::a00:1", "2002:c0a8:0101::5"},
		"shared (carrier-grade NAT)": {"100.64.0.1", "100.127.255.255"},
		"link-local":                 {"169.254.1.1", "fe80::1", "febf::1", "::ffff:169.254.1.1"},
		"metadata":                   {"169.254.169.254", "fd00:ec2::254", "::ffff:169.254.169.254", "64:ff9b::a9fe:a9fe", "2002:a9fe:a9fe::", "100.100.100.200", "168.63.129.16", "169.254.170.2", "fd20:ce::254"},
		"documentation":              {"192.0.2.1", "198.51.100.7", "203.0.113.255", "2001:db8::1", "3fff::1"},
		"benchmarking":               {"198.18.0.1", "198.19.255.255", "2001:2::1"},
		"broadcast":                  {"255.255.255.255"},
		"multicast":                  {"224.0.0.1", "239.255.255.255", "ff02::1", "ff0e::1"},
		"reserved":                   {"240.0.0.1", "192.0.0.1", "192.88.99.1", "2001::1", "2001:10::1", "100::1", "5f00::1", "4000::1", "1::1"},
	} {
		for _, addr := range addrs {
			if got := class(netip.MustParseAddr(addr)); got != want {
				t.Errorf("%s is %q, want %q", addr, got, want)
			}
		}
	}
}

func TestOwnAddresses(t *testing.T) {
	if !ofThisMachine(netip.MustParseAddr("127.0.0.1")) || ofThisMachine(netip.MustParseAddr("8.8.8.8")) {
		t.Error("this machine is not told from others")
	}
}
