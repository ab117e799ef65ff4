package containers

import (
	"encoding/json"
	"maps"
	"math"
	"slices"

	"github.com/moby/profiles/seccomp"
	"github.com/opencontainers/runtime-spec/specs-go"
	"golang.org/x/sys/unix"
)

// bridgeSeccomp is the engine's default profile with what reaches past an
// internal bridge taken out.
//
// On a bridge the host hears datagrams although it has no address there: its
// kernel answers ARP for every address it has, and joins all-hosts multicast on
// every interface. A container gets such datagrams out by broadcast, multicast,
// or by naming the interface instead of a route (SO_BINDTODEVICE, SO_DONTROUTE,
// IP_UNICAST_IF, IP_PKTINFO). Some of these travel in memory, where no filter
// sees them. So a container on a bridge gets TCP and nothing else, and the socket
// options are refused as well.
func bridgeSeccomp() (string, error) {
	return profileWith(slices.Concat(socketRules(), optionRules()), "socket", "setsockopt")
}

// loneSeccomp is the profile of containers without a network: the engine's default
// as of today, whatever this engine's is. A socket of AF_VSOCK leads past every
// network namespace, to the hypervisor and from there to the host, and the kernel
// reads 32 bits of the family, whatever stands above them. AF_ALG reaches code of the
// kernel that nothing here needs.
func loneSeccomp() (string, error) {
	var rules []*seccomp.Syscall
	for _, family := range without([]uint32{unix.AF_ALG, unix.AF_VSOCK}, familyBits) {
		rules = append(rules, allow("socket", family.arg(0)))
	}
	return profileWith(rules, "socket")
}

// familyBits is what address families stay below.
const familyBits = 6

// profileWith is the engine's default profile with rules in place of those for some
// calls. io_uring and 32-bit socket calls would go around every one of them.
func profileWith(rules []*seccomp.Syscall, inPlaceOf ...string) (string, error) {
	dropped := append([]string{"socketcall", "io_uring_setup", "io_uring_enter", "io_uring_register"}, inPlaceOf...)
	profile := seccomp.DefaultProfile()
	for _, rule := range profile.Syscalls {
		rule.Names = slices.DeleteFunc(rule.Names, func(name string) bool { return slices.Contains(dropped, name) })
	}
	profile.Syscalls = slices.DeleteFunc(profile.Syscalls, func(rule *seccomp.Syscall) bool {
		return len(rule.Names) == 0
	})
	profile.Syscalls = append(profile.Syscalls, rules...)
	out, err := json.Marshal(profile)
	return string(out), err
}

// socketRules allow TCP, local sockets and the kernel's own lists of interfaces
// (which the C library reads), and no other socket.
func socketRules() []*seccomp.Syscall {
	rules := []*seccomp.Syscall{
		allow("socket", arg(0, unix.AF_UNIX)),
		allow("socket", arg(0, unix.AF_NETLINK), arg(2, unix.NETLINK_ROUTE)),
	}
	for _, family := range []uint64{unix.AF_INET, unix.AF_INET6} {
		for _, protocol := range []uint64{0, unix.IPPROTO_TCP} {
			rules = append(rules, allow("socket", arg(0, family), masked(1, 0xf, unix.SOCK_STREAM), arg(2, protocol)))
		}
	}
	return rules
}

// refusedOptions are the socket options that choose an interface or skip the
// routing table, by level.
func refusedOptions() map[uint32][]uint32 {
	return map[uint32][]uint32{
		unix.SOL_SOCKET:   {unix.SO_BINDTODEVICE, unix.SO_BINDTOIFINDEX, unix.SO_DONTROUTE},
		unix.IPPROTO_IP:   {unix.IP_UNICAST_IF},
		unix.IPPROTO_IPV6: {unix.IPV6_UNICAST_IF},
	}
}

// The kernel's levels and options stay far below these; what is above is refused.
const (
	levelBits  = 9
	optionBits = 8
)

// optionRules allow every setsockopt but the refused ones. A rule can neither say
// "not" nor take back what another allows, so they spell out the rest.
func optionRules() []*seccomp.Syscall {
	refused := refusedOptions()
	var rules []*seccomp.Syscall
	for _, level := range without(slices.Collect(maps.Keys(refused)), levelBits) {
		rules = append(rules, allow("setsockopt", level.arg(1)))
	}
	for level, options := range refused {
		exact := prefix{mask: math.MaxUint32, value: level}
		for _, option := range without(options, optionBits) {
			rules = append(rules, allow("setsockopt", exact.arg(1), option.arg(2)))
		}
	}
	return rules
}

// prefix is a range of 32-bit numbers that agree in the bits of mask. The kernel
// reads 32 bits of level and option, and so does a comparison with a prefix,
// whatever stands in the argument's upper half.
type prefix struct{ mask, value uint32 }

func (p prefix) arg(index uint) specs.LinuxSeccompArg {
	return masked(index, uint64(p.mask), uint64(p.value))
}

// without covers the numbers below 1<<bits, but for those given, with prefixes.
func without(numbers []uint32, bits int) []prefix {
	var cover func(p prefix, left int) []prefix
	cover = func(p prefix, left int) []prefix {
		hit := slices.ContainsFunc(numbers, func(n uint32) bool { return n&p.mask == p.value })
		switch {
		case !hit:
			return []prefix{p}
		case left == 0:
			return nil
		}
		bit := uint32(1) << (left - 1)
		zero := prefix{p.mask | bit, p.value}
		one := prefix{p.mask | bit, p.value | bit}
		return append(cover(zero, left-1), cover(one, left-1)...)
	}
	return cover(prefix{mask: ^uint32(0) << bits}, bits)
}

func allow(name string, args ...specs.LinuxSeccompArg) *seccomp.Syscall {
	return &seccomp.Syscall{LinuxSyscall: specs.LinuxSyscall{Names: []string{name}, Action: specs.ActAllow, Args: args}}
}

func arg(index uint, value uint64) specs.LinuxSeccompArg {
	return specs.LinuxSeccompArg{Index: index, Value: value, Op: specs.OpEqualTo}
}

// masked compares the bits of an argument that are in mask with value.
func masked(index uint, mask, value uint64) specs.LinuxSeccompArg {
	return specs.LinuxSeccompArg{Index: index, Value: mask, ValueTwo: value, Op: specs.OpMaskedEqual}
}
