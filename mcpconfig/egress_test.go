package mcpconfig_test

import (
	"strings"
	"testing"

	"github.com/waza-isolate/waza/mcpconfig"
)

func TestReadEgress(t *testing.T) {
	for _, tc := range []struct {
		in   mcpconfig.Egress
		want string // as it comes back
	}{
		{mcpconfig.Egress{Host: "api.example.com:443"}, "api.example.com:443"},
		{mcpconfig.Egress{Host: "API.Example.com"}, "api.example.com:443, api.example.com:80"},
		{mcpconfig.Egress{Host: "xn--bcher-kva.example:8443"}, "xn--bcher-kva.example:8443"},
		{mcpconfig.Egress{Host: "*.Example.com:443"}, "*.example.com:443"},
		{mcpconfig.Egress{Host: "192.0.2.7:5432"}, "192.0.2.7:5432"},
		{mcpconfig.Egress{Host: "10.0.0.0/8:443"}, "10.0.0.0/8:443"},
		{mcpconfig.Egress{Host: "2001:db8::1"}, "[2001:db8::1]:443, [2001:db8::1]:80"},
		{mcpconfig.Egress{Host: "[2001:db8::1]:22"}, "[2001:db8::1]:22"},
		{mcpconfig.Egress{Host: "[2001:db8::/32]:22"}, "[2001:db8::/32]:22"},
		{mcpconfig.Egress{Host: "db", Ports: []int{1, 2}, Address: "10.0.0.5"}, "db:1, db:2 at 10.0.0.5"},
		{mcpconfig.Egress{Host: "db:1", Address: "[::1]:5432"}, "db:1 at [::1]:5432"},
	} {
		got, problems := mcpconfig.ReadEgress([]mcpconfig.Egress{tc.in})
		if len(problems) > 0 || got[0].String() != tc.want {
			t.Errorf("%v: %v, %v, want %s", tc.in, got, problems, tc.want)
		}
	}
}

func TestReadEgressRefuses(t *testing.T) {
	name, dup := "is not a host name", "appears twice"
	for _, tc := range []struct {
		want string
		in   []mcpconfig.Egress
	}{
		{name, hosts("")}, {name, hosts("a_b.example")}, {name, hosts("a..example")}, {name, hosts("api.example.")}, {name, hosts("-a.example")},
		{name, hosts("bücher.example")}, {name, hosts("\u212aey.example")}, {name, hosts("*")}, {name, hosts("*.*.example")}, {name, hosts("a.*.example")}, {name, hosts("a b")},
		{"every name of a top-level domain", hosts("*.com")},
		{"the trial itself has", hosts("localhost")}, {"the trial itself has", hosts("x.localhost")}, {"the trial itself has", hosts("MODEL:80")}, {"the trial itself has", hosts("proxy")},
		{"nor an IP address in its usual form", hosts("127.1")}, {"nor an IP address in its usual form", hosts("2130706433")}, {"nor an IP address in its usual form", hosts("0x7f.0x1")}, {"nor an IP address in its usual form", hosts("0177.0.0.01")},
		{"must be HOST:PORT", hosts("https://api.example")}, {"must be HOST:PORT", hosts("api.example/path")}, {"must be HOST:PORT", hosts("fe80::1%eth0")}, {"must be HOST:PORT", hosts("::ffff:10.0.0.1")}, {"must be HOST:PORT", hosts("::ffff:0:0/96")},
		{"bits beyond its prefix", hosts("10.0.0.1/8:443")},
		{"no IPv6 address", hosts("[api.example]:443")}, {"no IPv6 address", hosts("[::1")},
		{"between 1 and 65535", hosts("a.example:0")}, {"between 1 and 65535", hosts("a.example:65536")}, {"between 1 and 65535", hosts("a.example:https")}, {"between 1 and 65535", hosts("a.example:080")}, {"between 1 and 65535", hosts("a.example:")},
		{"between 1 and 65535", []mcpconfig.Egress{{Host: "a.example", Ports: []int{0}}}},
		{"names port 1 twice", []mcpconfig.Egress{{Host: "a.example", Ports: []int{1, 1}}}},
		{"has no ports", []mcpconfig.Egress{{Host: "a.example", Ports: []int{}}}},
		{"remove one of them", []mcpconfig.Egress{{Host: "a.example:1", Ports: []int{2}}}},
		{"neither IP nor IP:PORT", []mcpconfig.Egress{{Host: "a.example", Address: "b.example"}}},
		{"neither IP nor IP:PORT", []mcpconfig.Egress{{Host: "a.example", Address: "fe80::1%eth0"}}},
		{"address needs a host name", []mcpconfig.Egress{{Host: "10.0.0.1", Address: "10.0.0.2"}}},
		{dup, hosts("a.example", "A.example:443")}, {dup, hosts("10.0.0.0/8:1", "10.0.0.0/8:1")},
		{"129 ports together", []mcpconfig.Egress{{Host: "a.example", Ports: upTo(129)}}},
	} {
		_, problems := mcpconfig.ReadEgress(tc.in)
		if len(problems) != 1 || !strings.Contains(problems[0].What, tc.want) {
			t.Errorf("%v: %v, want %q", tc.in, problems, tc.want)
		}
	}
}

func hosts(all ...string) (entries []mcpconfig.Egress) {
	for _, host := range all {
		entries = append(entries, mcpconfig.Egress{Host: host})
	}
	return entries
}

func upTo(n int) (all []int) {
	for i := range n {
		all = append(all, i+1)
	}
	return all
}

// FuzzReadEgress checks that a parsed entry is parsed to the same value when formatted.
func FuzzReadEgress(f *testing.F) {
	for _, host := range []string{"a.example:443", "*.b.example", "10.0.0.0/8:1", "[::1]:2", "::/0", "a:b:c", "[", "]:1", "*."} {
		f.Add(host)
	}
	f.Fuzz(func(t *testing.T, host string) {
		all, problems := mcpconfig.ReadEgress(hosts(host))
		if len(problems) > 0 {
			return
		}
		for text := range strings.SplitSeq(all[0].String(), ", ") {
			again, problems := mcpconfig.ReadEgress(hosts(text))
			if len(problems) > 0 || again[0].String() != text {
				t.Fatalf("%q is %q, which is %v, %v", host, text, again, problems)
			}
		}
	})
}

// A client's file cannot open the sandbox of its own servers, nor declare that a name may resolve
// into the user's network.
func TestEgressOfClients(t *testing.T) {
	for keys, refused := range map[string]string{
		`"egress": ["api.example.com:443"]`:                              "egress: a client's file cannot allow its own servers hosts",
		`"egress": ["${TOKEN}.example.com"]`:                             "egress: a client's file cannot allow its own servers hosts",
		`"egress": [{"host": "db.example:5432", "address": "10.0.0.1"}]`: "egress: a client's file cannot allow its own servers hosts",
		`"egress": []`: "",
		`"url": "https://it.example", "addresses": ["10.0.0.0/8"]`: "addresses: a client's file cannot allow its own servers addresses",
	} {
		if !strings.Contains(keys, "url") {
			keys = `"command": "x", ` + keys
		}
		_, err := mcpconfig.ReadClient("mcp.json", []byte(`{"mcpServers": {"it": {`+keys+`}}}`))
		if (refused == "") != (err == nil) || err != nil && !strings.Contains(err.Error(), `server "it": `+refused) || err != nil && !strings.Contains(err.Error(), "put the server into the eval") {
			t.Errorf("%s: %v", keys, err)
		}
	}
}
