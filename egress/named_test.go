package egress

import (
	"errors"
	"net"
	"net/netip"
	"testing"
)

// Where a name may lead is told by the address and by whose the name is.
func TestNamed(t *testing.T) {
	for _, test := range []struct {
		host    string
		allowed string
		may     []string
		mayNot  []string
	}{
		{
			host: "mcp.example.com",
			may:  []string{"8.8.8.8:443", "[2606:4700::1111]:443", "[::ffff:8.8.8.8]:443"},
			mayNot: []string{
				"127.0.0.1:80", "[::1]:80", "10.1.2.3:443", "192.168.1.1:443", "100.64.0.1:443", "169.254.169.254:80", "0.0.0.0:80", "[::]:80",
				"[::ffff:127.0.0.1]:80", "[64:ff9b::7f00:1]:80", "[2002:7f00:1::]:80", "[fe80::1%eth0]:80", "[fd00:ec2::254]:80", "224.0.0.1:80",
			},
		},
		{
			host: "mcp.corp.example", allowed: "10.0.0.0/8",
			may:    []string{"10.1.2.3:443", "[::ffff:10.1.2.3]:443", "8.8.8.8:443"},
			mayNot: []string{"192.168.1.1:443", "127.0.0.1:443"},
		},
		{host: "cloud.example", allowed: "169.254.0.0/16", may: []string{"169.254.1.1:80"}, mayNot: []string{"169.254.169.254:80"}},
		{host: "cloud.example", allowed: "169.254.169.254/32", may: []string{"169.254.169.254:80"}},
		{host: "localhost", may: []string{"127.0.0.1:80", "[::1]:80"}, mayNot: []string{"169.254.169.254:80"}},
		{host: "mcp", may: []string{"172.18.0.2:80", "127.0.1.1:80"}},
		{host: "mcp.internal", may: []string{"10.0.0.7:80"}},
		{host: "metadata.google.internal", mayNot: []string{"169.254.169.254:80"}},
		{host: "stock.localhost", may: []string{"127.0.0.1:80"}, mayNot: []string{"169.254.169.254:80"}},
		{host: "nas.home.arpa", may: []string{"192.168.1.9:80"}},
		{host: "localhost.example", mayNot: []string{"127.0.0.1:80"}},
		{host: "169.254.169.254", mayNot: []string{"169.254.169.254:80"}},
		{host: "::ffff:169.254.169.254", mayNot: []string{"[::ffff:169.254.169.254]:80"}},
		{host: "169.254.169.254", allowed: "169.254.169.254/32", may: []string{"169.254.169.254:80"}},
		{host: "127.0.0.1.", mayNot: []string{"127.0.0.1:80"}},
		{host: "127.1", mayNot: []string{"127.0.0.1:80"}},
		{host: "127.0.0.1", may: []string{"127.0.0.1:80"}},
		{host: "fe80::1%eth0", may: []string{"[fe80::1%eth0]:80"}},
	} {
		n := Named{Host: test.host}
		if test.allowed != "" {
			n.Allowed = []netip.Prefix{netip.MustParsePrefix(test.allowed)}
		}
		for _, address := range test.may {
			if err := n.Judge(t.Context(), "tcp", address, nil); err != nil {
				t.Errorf("%s at %s: %v", test.host, address, err)
			}
		}
		for _, address := range test.mayNot {
			if err := n.Judge(t.Context(), "tcp", address, nil); !isRefused(err) {
				t.Errorf("%s may be at %s: %v", test.host, address, err)
			}
		}
	}
}

func isRefused(err error) bool {
	_, ok := errors.AsType[*AddressError](err)
	return ok
}

// A dialer with a question explains why it does not connect.
func TestNamedDials(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	dialer := net.Dialer{ControlContext: Named{Host: "mcp.example.com"}.Judge}
	if conn, err := dialer.DialContext(t.Context(), "tcp", listener.Addr().String()); !isRefused(err) {
		t.Errorf("%v, %v", conn, err)
	}
}
