package observe

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
)

func TestAddress(t *testing.T) {
	for name, test := range map[string]struct {
		raw             string
		family, address string
	}{
		"IPv4":            {"\x02\x00\x00\x50\xc0\x00\x02\x01", "ip", "192.0.2.1:80"},
		"IPv6":            {"\x0a\x00\x01\xbb\x00\x00\x00\x00\x20\x01\x0d\xb8\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x01", "ip", "[2001:db8::1]:443"},
		"IPv4 in IPv6":    {"\x0a\x00\x00\x50\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\xff\xff\xc0\x00\x02\x01", "ip", "192.0.2.1:80"},
		"IPv4, cut":       {"\x02\x00\x00\x50\xc0", "ip", "cut short"},
		"IPv6, cut":       {"\x0a\x00\x00\x50\xc0", "ip", "cut short"},
		"path":            {"\x01\x00/run/a\x00garbage", "unix", "/run/a"},
		"path to the end": {"\x01\x00/run/a", "unix", "/run/a"},
		"no file":         {"\x01\x00\x00name\x00\x00", "unix", "@name"},
		"nameless":        {"\x01\x00", "unix", ""},
		"the kernel":      {"\x10\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00", "", ""},
		"taken back":      {"\x00\x00\x00\x00", "", ""},
		"nothing":         {"", "", ""},
		"half a family":   {"\x02", "", ""},
		"a host's vsock":  {"\x28\x00\x02\x00", "family-40", "0200"},
	} {
		if family, address := Address([]byte(test.raw)); family != test.family || address != test.address {
			t.Errorf("%s: %q, %q; want %q, %q", name, family, address, test.family, test.address)
		}
	}
}

func TestOutside(t *testing.T) {
	for _, test := range []struct {
		network, address string
		outside          bool
	}{
		{"ip", "192.0.2.1:80", true}, {"udp", "[2001:db8::1]:53", true}, {"ip", "cut short", true},
		{"unknown", "hidden by its program", true}, {"family-40", "0200", true},
		{"ip", "127.0.0.1:53", false}, {"ip", "127.0.2.1:5432", false}, {"ip", "[::1]:80", false},
		{"ip", "0.0.0.0:80", false}, {"ip", "[::ffff:127.0.0.1]:80", false}, {"unix", "/run/a", false},
	} {
		if got := (Connection{Network: test.network, Address: test.address}).Outside(); got != test.outside {
			t.Errorf("%s %s: outside %t", test.network, test.address, got)
		}
	}
}

// However much there is, so much is held, and the rest is counted.
func TestLedgerIsBounded(t *testing.T) {
	l := NewLedger()
	for i := range 10_000 {
		l.Connection("ip", fmt.Sprintf("192.0.2.1:%d", i))
		l.Program(fmt.Sprintf("/tmp/%d%s", i, strings.Repeat("x", 2000)), func() []string {
			return []string{strings.Repeat("y", 2000)}
		})
	}
	l.Connection("ip", "192.0.2.1:0")
	crowd := NewLedger()
	for i := range 1000 {
		crowd.Connection("unix", fmt.Sprint(i))
	}
	crowd.Connection("ip", "192.0.2.1:80")
	if c := crowd.Seen().Connections; len(c) != MaxConnections/2+1 || c[MaxConnections/2].Address != "192.0.2.1:80" {
		t.Errorf("1000 sockets hide a connection: %d", len(c))
	}
	l.Program("/tmp/0"+strings.Repeat("x", 2000), nil)
	s := l.Seen()
	if len(s.Connections) != MaxConnections || s.More[Connections] != 10_000-MaxConnections || s.Connections[0].Count != 2 {
		t.Errorf("%d connections, more %v, first %+v", len(s.Connections), s.More, s.Connections[0])
	}
	if len(s.Programs) != MaxPrograms || s.More[Programs] != 10_000-MaxPrograms || s.Programs[0].Count != 2 {
		t.Errorf("%d programs, more %v", len(s.Programs), s.More)
	}
	if size := len(marshal(t, s)); size > 1<<20 {
		t.Errorf("it takes %d bytes", size)
	}
}

func marshal(t testing.TB, s Seen) []byte {
	t.Helper()
	said, err := json.Marshal(s)
	if err != nil {
		t.Fatal(err)
	}
	return said
}

func TestParse(t *testing.T) {
	said := Seen{
		Programs: []Program{{Path: "/bin/sh\n", Args: []string{"sh", strings.Repeat("é", 300)}, Count: -4}},
		More:     map[string]int{Programs: -1, Files: 1 << 60},
		Unseen:   map[string]string{Files: strings.Repeat("x", 5000)},
	}
	for range MaxFiles + 5 {
		said.Files = append(said.Files, FileChange{Path: "/a", What: "created", Size: -1})
	}
	got, err := Parse(marshal(t, said))
	if err != nil {
		t.Fatal(err)
	}
	if len(got.Files) != MaxFiles || got.Files[0].Size != 0 || got.More[Files] != maxCount+5 {
		t.Errorf("%d files, more %v", len(got.Files), got.More)
	}
	want := []Program{{Path: "/bin/sh\n", Args: []string{"sh", strings.Repeat("é", 100) + "…"}, Count: 1}}
	if diff := cmp.Diff(want, got.Programs); diff != "" {
		t.Error(diff)
	}
	if len(got.Unseen[Files]) > maxText+4 {
		t.Errorf("a reason of %d bytes", len(got.Unseen[Files]))
	}
	if _, err := Parse([]byte(`{"files": 3}`)); err == nil {
		t.Error("files that are a number are taken")
	}
}

// Where the guest uses one of a few words, Parse reads any other as "other".
func TestParseKnowsWords(t *testing.T) {
	const evil = "\x1b]0;x\x07"
	got, err := Parse(marshal(t, Seen{
		Files:       []FileChange{{Path: "/a", What: evil, Kind: evil}, {Path: "/b", What: "removed"}, {Path: "/c", What: "created", Kind: "link"}},
		Connections: []Connection{{evil, "a", 1}, {"family-" + evil, "b", 1}, {"family-40", "c", 1}, {"udp", "d", 1}, {Unknown, "e", 1}, {"family-99999", "f", 1}},
	}))
	if err != nil {
		t.Fatal(err)
	}
	want := Seen{
		Files:       []FileChange{{Path: "/a", What: "other", Kind: "other"}, {Path: "/b", What: "removed"}, {Path: "/c", What: "created", Kind: "link"}},
		Connections: []Connection{{"other", "a", 1}, {"other", "b", 1}, {"family-40", "c", 1}, {"udp", "d", 1}, {Unknown, "e", 1}, {"other", "f", 1}},
		More:        map[string]int{}, Unseen: map[string]string{},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestNothing(t *testing.T) {
	if got := Nothing("why"); len(got.Unseen) != 3 || got.Unseen[Files] != "why" {
		t.Errorf("%+v", got)
	}
}

// FuzzParse has a guest say anything.
func FuzzParse(f *testing.F) {
	f.Add([]byte(`{"files":[{"path":"/tmp/a","what":"created"}],"more":{"files":3},"unseen":{"programs":"x"}}`))
	f.Add([]byte(`{"programs":[{"path":"\ud800","args":["a"],"count":9223372036854775807}],"connections":[null,{}]}`))
	f.Fuzz(func(t *testing.T, said []byte) {
		s, err := Parse(said)
		if err != nil {
			return
		}
		if len(s.Files) > MaxFiles || len(s.Programs) > MaxPrograms || len(s.Connections) > MaxConnections || len(s.More) > maxCounts+3 || len(s.Unseen) > maxCounts {
			t.Errorf("more than the bounds: %+v", s)
		}
		for _, p := range s.Programs {
			if len(p.Path) > maxText+len("…") || len(p.Args) > maxArgs || p.Count < 1 || !utf8.ValidString(p.Path) {
				t.Errorf("program %+v", p)
			}
		}
		again, err := Parse(marshal(t, s))
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(string(marshal(t, s)), string(marshal(t, again))); diff != "" {
			t.Errorf("it is another when it is read again: %s", diff)
		}
	})
}

// FuzzAddress has a program connect to anything.
func FuzzAddress(f *testing.F) {
	f.Add([]byte("\x02\x00\x00\x50\xc0\x00\x02\x01"))
	f.Add([]byte("\x01\x00\x00name\x00"))
	f.Fuzz(func(t *testing.T, raw []byte) {
		family, address := Address(raw)
		if family == "" && address != "" {
			t.Errorf("an address of no family: %q", address)
		}
		_ = Connection{Network: family, Address: address}.Outside()
	})
}
