package containers

import (
	"net/netip"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

func TestParseRange(t *testing.T) {
	tests := []struct{ in, want string }{ // want is empty for an error
		{"", defaultRange},
		{"10.9.0.0/16", "10.9.0.0/16"},
		{"192.168.4.0/29", "192.168.4.0/29"},
		{"192.168.4.0/30", ""},
		{"192.168.4.0", ""},
		{"fd00::/64", ""},
		{"::ffff:10.0.0.0/104", ""},
		{"10.0.0.0/33", ""},
		{"nonsense", ""},
	}
	for _, test := range tests {
		got, err := parseRange(test.in)
		if (err != nil) != (test.want == "") {
			t.Errorf("parseRange(%q): error %v", test.in, err)
		} else if err == nil && got.String() != test.want {
			t.Errorf("parseRange(%q) = %s, want %s", test.in, got, test.want)
		}
	}
}

// Once around, a pool hands out every /29 of its range and no other, each once,
// and then starts over in the same order.
func TestSubnetPool(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		bits := rapid.IntRange(taskBits-8, taskBits).Draw(t, "bits")
		b := rapid.SliceOfN(rapid.Byte(), 4, 4).Draw(t, "address")
		from := netip.PrefixFrom(netip.AddrFrom4([4]byte(b)), bits)
		p := newSubnetPool()
		p.take(netip.MustParsePrefix("172.16.0.0/12"), nil) // another range has its own turn

		count := 1 << (taskBits - bits)
		var order []netip.Prefix
		seen := map[netip.Prefix]bool{}
		for range count {
			a, _ := p.take(from, nil)
			order = append(order, a.subnet)
			switch {
			case seen[a.subnet]:
				t.Fatalf("%s came twice", a.subnet)
			case a.subnet.Bits() != taskBits || a.subnet.Masked() != a.subnet:
				t.Fatalf("%s is no /%d", a.subnet, taskBits)
			case !from.Contains(a.subnet.Addr()):
				t.Fatalf("%s lies outside %s", a.subnet, from)
			case !a.subnet.Contains(a.agent()):
				t.Fatalf("address %s in %s", a.agent(), a.subnet)
			}
			seen[a.subnet] = true
		}
		a, freed := p.take(from, nil)
		if a.subnet.IsValid() || freed == nil {
			t.Fatalf("%s is handed out with none left, %v", a.subnet, freed)
		}
		back := rapid.SampledFrom(order).Draw(t, "back")
		p.giveBack(addresses{back})
		<-freed
		if _, freed = p.take(from, map[netip.Prefix]bool{back: true}); freed == nil && count > 1 {
			t.Fatal("with the free one foreign, there is nothing to wait for")
		}
		if a, _ := p.take(from, nil); a.subnet != back {
			t.Fatalf("%s is handed out, and free is %s", a.subnet, back)
		}
		for _, subnet := range order {
			p.giveBack(addresses{subnet})
		}
		first := slices.Index(order, back) + 1
		for i := range order {
			want := order[(first+i)%count]
			if got, _ := p.take(from, nil); got.subnet != want {
				t.Fatalf("second time around %s, first time %s", got.subnet, want)
			}
		}
	})
}
