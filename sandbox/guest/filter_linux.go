package guest

import (
	"fmt"
	"maps"
	"runtime"
	"slices"

	"golang.org/x/sys/unix"
)

// Offsets in struct seccomp_data, and what one of its arguments takes.
const (
	offNumber = 0
	offArch   = 4
	offArgs   = 16
	argSize   = 8
)

// sendToAddress is the argument of sendto that points to where.
const sendToAddress = 4

// notifyFilter is a program for the kernel that has every watched call told of, and
// lets all others go on. Whoever is under it can add filters that refuse calls, and
// none that keeps one from being told: of what filters say of a call that may go on,
// the kernel puts being told first.
func notifyFilter(all []abi) []unix.SockFilter {
	var out []unix.SockFilter
	for _, a := range all {
		body := callsFilter(a)
		out = append(out, load(offArch), skipUnless(a.arch, uint8(len(body))))
		out = append(out, body...)
	}
	return append(out, end(unix.SECCOMP_RET_ALLOW))
}

// callsFilter is the part for one architecture; it always ends.
func callsFilter(a abi) []unix.SockFilter {
	out := []unix.SockFilter{load(offNumber)}
	for _, number := range slices.Sorted(maps.Keys(a.calls)) {
		if a.calls[number] != callSendTo {
			out = append(out, skipUnless(number, 1), end(unix.SECCOMP_RET_USER_NOTIF))
			continue
		}
		// Without an address it is what servers write their answers with.
		out = append(out,
			skipUnless(number, 6),
			load(offArgs+sendToAddress*argSize), skipUnless(0, 3),
			load(offArgs+sendToAddress*argSize+argSize/2), skipUnless(0, 1),
			end(unix.SECCOMP_RET_ALLOW),
			end(unix.SECCOMP_RET_USER_NOTIF),
		)
	}
	return append(out, end(unix.SECCOMP_RET_ALLOW))
}

func load(offset uint32) unix.SockFilter {
	return unix.SockFilter{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, K: offset}
}

// skipUnless skips a number of instructions unless what was loaded is value.
func skipUnless(value uint32, count uint8) unix.SockFilter {
	return unix.SockFilter{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, K: value, Jf: count}
}

func end(action uint32) unix.SockFilter {
	return unix.SockFilter{Code: unix.BPF_RET | unix.BPF_K, K: action}
}

// watchedCall is a kind of system call that is looked at before it goes on.
type watchedCall int

const (
	callConnect watchedCall = iota + 1
	callSendTo
	callSendMsg
	callSendMMsg
	callExec
	callExecAt
)

// abi is one of the ways in which a program may call a kernel.
type abi struct {
	arch    uint32 // AUDIT_ARCH_…
	pointer int    // bytes of one
	calls   map[uint32]watchedCall
}

// x32 marks calls of the 32-bit programs of amd64 that use its registers.
const x32 = 0x40000000

// abis are the ways on this architecture, those of 32-bit programs too. The numbers are
// the kernel's, from its tables of system calls.
func abis() ([]abi, error) {
	switch runtime.GOARCH {
	case "amd64":
		return []abi{
			{unix.AUDIT_ARCH_X86_64, 8, map[uint32]watchedCall{
				42: callConnect, 44: callSendTo, 46: callSendMsg, 307: callSendMMsg, 59: callExec, 322: callExecAt,
				x32 | 42: callConnect, x32 | 44: callSendTo, x32 | 518: callSendMsg, x32 | 538: callSendMMsg, x32 | 520: callExec, x32 | 545: callExecAt,
			}},
			{unix.AUDIT_ARCH_I386, 4, map[uint32]watchedCall{
				362: callConnect, 369: callSendTo, 370: callSendMsg, 345: callSendMMsg, 11: callExec, 358: callExecAt,
			}},
		}, nil
	case "arm64":
		return []abi{
			{unix.AUDIT_ARCH_AARCH64, 8, map[uint32]watchedCall{
				203: callConnect, 206: callSendTo, 211: callSendMsg, 269: callSendMMsg, 221: callExec, 281: callExecAt,
			}},
			{unix.AUDIT_ARCH_ARM, 4, map[uint32]watchedCall{
				283: callConnect, 290: callSendTo, 296: callSendMsg, 374: callSendMMsg, 11: callExec, 387: callExecAt,
			}},
		}, nil
	}
	return nil, fmt.Errorf("the calls of %s are not known", runtime.GOARCH)
}

// find tells a call, and how long a pointer is where it was made; 0 for others.
func find(all []abi, arch, number uint32) (call watchedCall, pointer int) {
	for _, a := range all {
		if a.arch == arch {
			if arch == unix.AUDIT_ARCH_X86_64 && number&x32 != 0 {
				return a.calls[number], 4
			}
			return a.calls[number], a.pointer
		}
	}
	return 0, 0
}
