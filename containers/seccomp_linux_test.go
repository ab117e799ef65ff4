package containers

import (
	"encoding/json"
	"slices"
	"testing"

	"github.com/moby/profiles/seccomp"
	"github.com/opencontainers/runtime-spec/specs-go"
	"golang.org/x/sys/unix"
	"pgregory.net/rapid"
)

// Of the numbers below 1<<bits, each but the given ones is in exactly one prefix,
// and no other number is in any.
func TestWithout(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		bits := rapid.IntRange(0, 10).Draw(t, "bits")
		limit := uint32(1) << bits
		numbers := rapid.SliceOf(rapid.Uint32Range(0, 2*limit)).Draw(t, "numbers")
		prefixes := without(numbers, bits)
		covers := func(n uint32) (count int) {
			for _, p := range prefixes {
				if n&p.mask == p.value {
					count++
				}
			}
			return count
		}
		for n := range limit {
			want := 1
			if slices.Contains(numbers, n) {
				want = 0
			}
			if got := covers(n); got != want {
				t.Fatalf("%d of %d prefixes cover %d, want %d", got, len(prefixes), n, want)
			}
		}
		for _, n := range rapid.SliceOfN(rapid.Uint32Min(limit), 64, 64).Draw(t, "beyond") {
			if covers(n) > 0 {
				t.Fatalf("covers %d, which is not below %d", n, limit)
			}
		}
	})
}

// allows says whether a profile's rules let a call through, as the kernel's filter
// compares: 64-bit arguments, any rule that fits wins. It leaves out rules that
// depend on capabilities, which no container of ours has.
func allows(rules []*seccomp.Syscall, name string, args ...uint64) bool {
	fits := func(a specs.LinuxSeccompArg) bool {
		switch a.Op {
		case specs.OpEqualTo:
			return args[a.Index] == a.Value
		case specs.OpMaskedEqual:
			return args[a.Index]&a.Value == a.ValueTwo
		case specs.OpNotEqual:
			return args[a.Index] != a.Value
		}
		return true // a comparison that this test does not know counts against the profile
	}
	return slices.ContainsFunc(rules, func(r *seccomp.Syscall) bool {
		needsMore := r.Includes != nil && len(r.Includes.Caps) > 0
		if r.Action != specs.ActAllow || !slices.Contains(r.Names, name) || needsMore {
			return false
		}
		for _, a := range r.Args {
			if !fits(a) {
				return false
			}
		}
		return true
	})
}

func profileRules(t *testing.T) []*seccomp.Syscall {
	t.Helper()
	text, err := seccompProfile()
	if err != nil {
		t.Fatal(err)
	}
	var profile seccomp.Seccomp
	if err := json.Unmarshal([]byte(text), &profile); err != nil {
		t.Fatal(err)
	}
	if profile.DefaultAction != specs.ActErrno {
		t.Fatalf("what no rule names is %s, want an error", profile.DefaultAction)
	}
	return profile.Syscalls
}

// Whatever stands in the upper half of level and option, which the kernel does
// not read, exactly the refused and the ignored options are not carried out.
func TestSocketOptions(t *testing.T) {
	rules := profileRules(t)
	refused := refusedOptions()
	refused[unix.SOL_SOCKET] = append(refused[unix.SOL_SOCKET], ignoredOptions...)
	rapid.Check(t, func(t *rapid.T) {
		levels := rapid.OneOf(rapid.SampledFrom([]uint32{unix.SOL_SOCKET, unix.IPPROTO_IP, unix.IPPROTO_IPV6, unix.IPPROTO_TCP}), rapid.Uint32Range(0, 600))
		level, option := levels.Draw(t, "level"), rapid.Uint32Range(0, 300).Draw(t, "option")
		upper := uint64(rapid.Uint32().Draw(t, "upper")) << 32
		want := level < 1<<levelBits && !slices.Contains(refused[level], option)
		if _, listed := refused[level]; listed && option >= 1<<optionBits {
			want = false
		}
		if got := allows(rules, "setsockopt", 3, upper|uint64(level), upper|uint64(option)); got != want {
			t.Fatalf("setsockopt of level %d, option %d, upper half %#x: allowed %t, want %t", level, option, upper, got, want)
		}
	})
	for level, options := range refused {
		for _, option := range options {
			if allows(rules, "setsockopt", 3, uint64(level), uint64(option)) {
				t.Errorf("option %d of level %d is allowed", option, level)
			}
		}
	}
}

func TestSockets(t *testing.T) {
	const flags = unix.SOCK_CLOEXEC | unix.SOCK_NONBLOCK
	tests := []struct {
		name                   string
		family, kind, protocol uint64
		want                   bool
	}{
		{"TCP", unix.AF_INET, unix.SOCK_STREAM, 0, true},
		{"TCP by number, with flags", unix.AF_INET, unix.SOCK_STREAM | flags, unix.IPPROTO_TCP, true},
		{"TCP over IPv6", unix.AF_INET6, unix.SOCK_STREAM | flags, 0, true},
		{"Unix stream", unix.AF_UNIX, unix.SOCK_STREAM | flags, 0, true},
		{"Unix datagram", unix.AF_UNIX, unix.SOCK_DGRAM, 0, true},
		{"list of interfaces", unix.AF_NETLINK, unix.SOCK_RAW | flags, unix.NETLINK_ROUTE, true},
		{"UDP", unix.AF_INET, unix.SOCK_DGRAM, 0, false},
		{"UDP with flags", unix.AF_INET, unix.SOCK_DGRAM | flags, unix.IPPROTO_UDP, false},
		{"UDP over IPv6", unix.AF_INET6, unix.SOCK_DGRAM, 0, false},
		{"ping", unix.AF_INET, unix.SOCK_DGRAM, unix.IPPROTO_ICMP, false},
		{"raw", unix.AF_INET, unix.SOCK_RAW, unix.IPPROTO_RAW, false},
		{"SCTP", unix.AF_INET, unix.SOCK_STREAM, unix.IPPROTO_SCTP, false},
		{"MPTCP", unix.AF_INET, unix.SOCK_STREAM, unix.IPPROTO_MPTCP, false},
		{"packet", unix.AF_PACKET, unix.SOCK_RAW, 0, false},
		{"vsock", unix.AF_VSOCK, unix.SOCK_STREAM, 0, false},
		{"other netlink", unix.AF_NETLINK, unix.SOCK_RAW, unix.NETLINK_NETFILTER, false},
	}
	rules := profileRules(t)
	for _, test := range tests {
		if got := allows(rules, "socket", test.family, test.kind, test.protocol); got != test.want {
			t.Errorf("%s: allowed %t, want %t", test.name, got, test.want)
		}
	}
}

func TestPages(t *testing.T) {
	rules := profileRules(t)
	const high = 1 << 40 // which the kernel does not read
	for _, test := range []struct {
		call string
		args []uint64
		want bool
	}{
		{"mmap", []uint64{0, 4096, 3, unix.MAP_PRIVATE | unix.MAP_ANONYMOUS}, true},
		{"mmap", []uint64{0, 4096, 3, unix.MAP_PRIVATE | unix.MAP_ANONYMOUS | unix.MAP_HUGETLB}, false},
		{"mmap", []uint64{0, 4096, 3, high | unix.MAP_HUGETLB}, false},
		{"memfd_create", []uint64{0, unix.MFD_CLOEXEC}, true},
		{"memfd_create", []uint64{0, unix.MFD_HUGETLB}, false},
		{"memfd_create", []uint64{0, high | unix.MFD_HUGETLB}, false},
		{"shmget", []uint64{0, 4096, 0o1600}, true},
		{"shmget", []uint64{0, 4096, shmHugeTLB}, false},
		{"memfd_secret", []uint64{0}, false},
	} {
		if got := allows(rules, test.call, test.args...); got != test.want {
			t.Errorf("%s%#x: allowed %t, want %t", test.call, test.args, got, test.want)
		}
	}
}

func TestNoWayAroundTheFilter(t *testing.T) {
	rules := profileRules(t)
	for _, call := range []string{"socketcall", "io_uring_setup", "io_uring_enter", "io_uring_register", "io_setup"} {
		if allows(rules, call) {
			t.Errorf("%s is allowed", call)
		}
	}
	for _, call := range []string{"read", "write", "connect", "sendmsg", "getsockopt", "epoll_wait"} {
		if !allows(rules, call) {
			t.Errorf("%s is not allowed: the engine's own rules are gone", call)
		}
	}
}
