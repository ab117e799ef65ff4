package guest

import (
	"net/netip"
	"testing"

	"golang.org/x/net/dns/dnsmessage"
)

func query(t testing.TB, name string, kind dnsmessage.Type) []byte {
	t.Helper()
	m := dnsmessage.Message{
		Header:    dnsmessage.Header{ID: 7, RecursionDesired: true},
		Questions: []dnsmessage.Question{{Name: dnsmessage.MustNewName(name), Type: kind, Class: dnsmessage.ClassINET}},
	}
	packed, err := m.Pack()
	if err != nil {
		t.Fatal(err)
	}
	return packed
}

func names() map[string][]netip.Addr {
	return map[string][]netip.Addr{"github": {netip.MustParseAddr("127.0.1.1")}, "*.wild.example": {netip.MustParseAddr("127.0.3.1")}}
}

func TestAnswerDNS(t *testing.T) {
	tests := []struct {
		name    string
		kind    dnsmessage.Type
		rcode   dnsmessage.RCode
		answers int
	}{
		{"github.", dnsmessage.TypeA, dnsmessage.RCodeSuccess, 1},
		{"GitHub.", dnsmessage.TypeA, dnsmessage.RCodeSuccess, 1},
		{"github.", dnsmessage.TypeAAAA, dnsmessage.RCodeSuccess, 0},
		{"github.com.", dnsmessage.TypeA, dnsmessage.RCodeNameError, 0},
		{"a.wild.example.", dnsmessage.TypeA, dnsmessage.RCodeSuccess, 1},
		{"Deep.A.Wild.Example.", dnsmessage.TypeA, dnsmessage.RCodeSuccess, 1},
		{"a.wild.example.", dnsmessage.TypeAAAA, dnsmessage.RCodeSuccess, 0},
		{"wild.example.", dnsmessage.TypeA, dnsmessage.RCodeNameError, 0},
		{"awild.example.", dnsmessage.TypeA, dnsmessage.RCodeNameError, 0},
		{"a.wild.example.com.", dnsmessage.TypeA, dnsmessage.RCodeNameError, 0},
		{"secret.example.", dnsmessage.TypeTXT, dnsmessage.RCodeNameError, 0},
		{".", dnsmessage.TypeNS, dnsmessage.RCodeNameError, 0},
	}
	for _, test := range tests {
		t.Run(test.name+test.kind.String(), func(t *testing.T) {
			packed, reported, err := answerDNS(query(t, test.name, test.kind), names())
			must(t, err)
			var got dnsmessage.Message
			must(t, got.Unpack(packed))
			if got.ID != 7 || !got.Response || got.RCode != test.rcode || len(got.Answers) != test.answers {
				t.Errorf("got %s", got.GoString())
			}
			if reported.Answered != (test.rcode == dnsmessage.RCodeSuccess) {
				t.Errorf("told %+v", reported)
			}
		})
	}
}

func TestAnswerDNSRefuses(t *testing.T) {
	reply, _, err := answerDNS(query(t, "github.", dnsmessage.TypeA), names())
	must(t, err)
	for name, in := range map[string][]byte{
		"nothing": nil, "a reply": reply, "half a header": reply[:6], "no question": query(t, "x.", dnsmessage.TypeA)[:12],
	} {
		if _, _, err := answerDNS(in, names()); err == nil {
			t.Errorf("%s was answered", name)
		}
	}
}

func FuzzAnswerDNS(f *testing.F) {
	f.Add(query(f, "github.", dnsmessage.TypeA))
	f.Add(query(f, "x.example.", dnsmessage.TypeMX))
	f.Fuzz(func(t *testing.T, in []byte) {
		packed, reported, err := answerDNS(in, names())
		if err != nil {
			return
		}
		var got dnsmessage.Message
		if err := got.Unpack(packed); err != nil {
			t.Fatalf("the answer cannot be read: %v", err)
		}
		if reported.Answered != (reported.Name == "github") || len(got.Answers) > 0 && !reported.Answered {
			t.Fatalf("answered %+v: %s", reported, got.GoString())
		}
	})
}
