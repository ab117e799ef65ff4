package containers

import (
	"encoding/json"
	"maps"
	"math"
	"slices"

	"github.com/moby/profiles/seccomp"
	"github.com/opencontainers/runtime-spec/specs-go"
	"golang.org/x/sys/unix"

	"github.com/waza-isolate/waza/internal/defence"
)

// seccompProfile returns Docker's default profile of today, whatever this engine's is,
// without what reaches past a container's network.
//
// On a bridge the host hears datagrams although it has no address there: its
// kernel answers ARP for every address it has, and joins all-hosts multicast on
// every interface. A container gets such datagrams out by broadcast, multicast,
// or by naming the interface instead of a route (SO_BINDTODEVICE, SO_DONTROUTE,
// IP_UNICAST_IF, IP_PKTINFO). Some of these travel in memory, where no filter
// sees them. So a container gets TCP and nothing else, and the socket options are
// refused as well. One without a network needs no more; a socket of AF_VSOCK would lead
// past every network namespace, to the hypervisor and from there to the host, and other
// families reach code of the kernel that nothing here needs.
//
// io_uring and 32-bit socket calls would go around every one of these rules. 32-bit
// programs do not run at all: the kernel has a second table of calls for them, which costs
// every start a sixth of its time to filter, and which nothing here needs.
func seccompProfile() (string, error) {
	dropped := []string{"socketcall", "io_uring_setup", "io_uring_enter", "io_uring_register", "io_setup", "socket", "setsockopt"}
	profile := seccomp.DefaultProfile()
	for i := range profile.ArchMap {
		profile.ArchMap[i].SubArches = nil
	}
	for _, rule := range profile.Syscalls {
		rule.Names = slices.DeleteFunc(rule.Names, func(name string) bool { return slices.Contains(dropped, name) })
	}
	profile.Syscalls = slices.DeleteFunc(profile.Syscalls, func(rule *seccomp.Syscall) bool {
		return len(rule.Names) == 0
	})
	profile.Syscalls = slices.Concat(profile.Syscalls, socketRules(), optionRules())
	// The kernel has so much of AIO for the whole machine. Programs do without it where
	// there is none.
	profile.Syscalls = append(profile.Syscalls, answer("io_setup", uint(unix.ENOSYS)))
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
// routing table, or have the kernel compile a program, whose memory is the machine's; by
// level.
func refusedOptions() map[uint32][]uint32 {
	return map[uint32][]uint32{
		unix.SOL_SOCKET:   {unix.SO_BINDTODEVICE, unix.SO_BINDTOIFINDEX, unix.SO_DONTROUTE, unix.SO_ATTACH_FILTER, unix.SO_ATTACH_REUSEPORT_CBPF},
		unix.IPPROTO_IP:   {unix.IP_UNICAST_IF},
		unix.IPPROTO_IPV6: {unix.IPV6_UNICAST_IF},
	}
}

// The kernel's levels and options stay far below these; what is above is refused.
const (
	levelBits  = 9
	optionBits = 8
)

// ignoredOptions are options of SOL_SOCKET that ask for larger buffers than tcpBuffers
// allows. The kernel takes them as advice, and so do programs.
var ignoredOptions = []uint32{unix.SO_RCVBUF, unix.SO_SNDBUF, unix.SO_RCVBUFFORCE, unix.SO_SNDBUFFORCE}

// optionRules allow every setsockopt except the refused ones, and do nothing for the ignored
// ones. A rule can neither say "not" nor take back what another allows, so they spell out
// the rest.
func optionRules() []*seccomp.Syscall {
	refused := refusedOptions()
	var rules []*seccomp.Syscall
	if defence.SmallTCPBuffers {
		refused[unix.SOL_SOCKET] = append(refused[unix.SOL_SOCKET], ignoredOptions...)
		for _, option := range ignoredOptions {
			rules = append(rules, answer("setsockopt", 0, prefix{math.MaxUint32, unix.SOL_SOCKET}.arg(1), prefix{math.MaxUint32, option}.arg(2)))
		}
	}
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
// whatever the argument's upper half has.
type prefix struct{ mask, value uint32 }

func (p prefix) arg(index uint) specs.LinuxSeccompArg {
	return masked(index, uint64(p.mask), uint64(p.value))
}

// without covers the numbers below 1<<bits, except those given, with prefixes.
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

// answer has a call return an error, or with 0 succeed, without being carried out.
func answer(name string, errno uint, args ...specs.LinuxSeccompArg) *seccomp.Syscall {
	return &seccomp.Syscall{LinuxSyscall: specs.LinuxSyscall{Names: []string{name}, Action: specs.ActErrno, ErrnoRet: &errno, Args: args}}
}

func arg(index uint, value uint64) specs.LinuxSeccompArg {
	return specs.LinuxSeccompArg{Index: index, Value: value, Op: specs.OpEqualTo}
}

// masked compares the bits of an argument that are in mask with value.
func masked(index uint, mask, value uint64) specs.LinuxSeccompArg {
	return specs.LinuxSeccompArg{Index: index, Value: mask, ValueTwo: value, Op: specs.OpMaskedEqual}
}
