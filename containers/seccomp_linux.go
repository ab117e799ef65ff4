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

// seccompProfile returns Docker's current default profile, regardless of the engine's, without
// system calls that reach beyond a container's network.
//
// On a bridge, the host receives datagrams even without an address there: its kernel answers
// ARP for all of its addresses, and joins the all-hosts multicast group on every interface. A
// container can send such datagrams by broadcast, by multicast, or by naming the interface
// instead of a route (SO_BINDTODEVICE, SO_DONTROUTE, IP_UNICAST_IF, IP_PKTINFO). Some of these
// are passed in memory, where seccomp cannot inspect them. So containers only get TCP, and
// these socket options are denied. Containers without a network need no more than that.
// AF_VSOCK would bypass network namespaces and reach the hypervisor, and from there the host;
// other families only expose kernel code that nothing needs.
//
// io_uring and 32-bit socket calls would bypass these rules. 32-bit programs do not run at all:
// the kernel has a second table of system calls for them. Filtering it would cost a sixth of
// each start, and nothing needs it.
func seccompProfile() (string, error) {
	dropped := []string{
		"socketcall", "io_uring_setup", "io_uring_enter", "io_uring_register", "io_setup", "socket", "setsockopt",
		"memfd_secret", "mmap", "memfd_create", "shmget",
	}
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
	profile.Syscalls = slices.Concat(profile.Syscalls, socketRules(), optionRules(), pageRules())
	// The kernel's AIO contexts are limited for the whole machine. Programs can do without
	// them.
	profile.Syscalls = append(profile.Syscalls, answer("io_setup", uint(unix.ENOSYS)))
	out, err := json.Marshal(profile)
	return string(out), err
}

// socketRules allow TCP, Unix sockets and NETLINK_ROUTE, which the C library uses to list
// interfaces, and no other sockets.
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

// pageRules allow calls that map memory, with two exceptions: huge pages, which are reserved for
// the machine, and secret memory (memfd_secret), which splits the kernel's memory map.
func pageRules() []*seccomp.Syscall {
	return []*seccomp.Syscall{
		allow("mmap", masked(3, unix.MAP_HUGETLB, 0)),
		allow("memfd_create", masked(1, unix.MFD_HUGETLB, 0)),
		allow("shmget", masked(2, shmHugeTLB, 0)),
	}
}

// shmHugeTLB is SHM_HUGETLB of linux/shm.h.
const shmHugeTLB = 0o4000

// refusedOptions returns socket options, by level, that choose an interface, skip the routing
// table, or use kernel memory that is not accounted to the container: for programs, keys, protocols
// on top of TCP, and flow labels, of which the machine has 4096.
func refusedOptions() map[uint32][]uint32 {
	return map[uint32][]uint32{
		unix.SOL_SOCKET:   {unix.SO_BINDTODEVICE, unix.SO_BINDTOIFINDEX, unix.SO_DONTROUTE, unix.SO_ATTACH_FILTER, unix.SO_ATTACH_REUSEPORT_CBPF},
		unix.IPPROTO_IP:   {unix.IP_UNICAST_IF},
		unix.IPPROTO_TCP:  {unix.TCP_MD5SIG, unix.TCP_MD5SIG_EXT, unix.TCP_ULP, tcpAuthKey},
		unix.IPPROTO_IPV6: {unix.IPV6_UNICAST_IF, ipv6FlowLabels},
	}
}

// tcpAuthKey is TCP_AO_ADD_KEY of linux/tcp.h, and ipv6FlowLabels IPV6_FLOWLABEL_MGR of linux/in6.h.
const (
	tcpAuthKey     = 38
	ipv6FlowLabels = 32
)

// The kernel's levels and options are far below these limits; larger values are denied.
const (
	levelBits  = 9
	optionBits = 8
)

// ignoredOptions are options of SOL_SOCKET that request larger buffers than tcpBuffers allows.
// The kernel and programs treat them as advice.
var ignoredOptions = []uint32{unix.SO_RCVBUF, unix.SO_SNDBUF, unix.SO_RCVBUFFORCE, unix.SO_SNDBUFFORCE}

// optionRules allow every setsockopt except the denied ones, and ignore the ignored ones. A
// rule can neither be negated nor revoke another one, so the rules enumerate the rest.
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

// prefix is the set of 32-bit numbers that equal value in the bits of mask. The kernel reads 32
// bits of level and option, and so does a comparison with a prefix, whatever the upper half
// contains.
type prefix struct{ mask, value uint32 }

func (p prefix) arg(index uint) specs.LinuxSeccompArg {
	return masked(index, uint64(p.mask), uint64(p.value))
}

// without returns prefixes that cover the numbers below 1<<bits except the given ones.
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

// answer makes a call return an error, or success if errno is 0, without executing it.
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
