package guest

import (
	"fmt"
	"maps"
	"runtime"
	"slices"

	"golang.org/x/sys/unix"
)

// Offsets in struct seccomp_data, and the size of an argument.
const (
	offNumber = 0
	offArch   = 4
	offArgs   = 16
	argSize   = 8
)

// sendToAddress is the index of sendto's address argument.
const sendToAddress = 4

// notifyFilter returns a seccomp filter that notifies us of every watched call, and allows all
// others. Programs can add filters that deny calls, but cannot suppress notifications: among
// actions that let a call continue, the kernel gives precedence to the notification.
func notifyFilter(all []abi) []unix.SockFilter {
	var out []unix.SockFilter
	for _, a := range all {
		body := callsFilter(a)
		out = append(out, load(offArch), skipUnless(a.arch, uint8(len(body))))
		out = append(out, body...)
	}
	return append(out, end(unix.SECCOMP_RET_ALLOW))
}

// callsFilter returns the part of the filter for one ABI. It always returns an action.
func callsFilter(a abi) []unix.SockFilter {
	out := []unix.SockFilter{load(offNumber)}
	for _, number := range slices.Sorted(maps.Keys(a.calls)) {
		if a.calls[number] != callSendTo {
			out = append(out, skipUnless(number, 1), end(unix.SECCOMP_RET_USER_NOTIF))
			continue
		}
		// Servers use sendto without an address to write responses.
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

// skipUnless skips count instructions unless the loaded value is value.
func skipUnless(value uint32, count uint8) unix.SockFilter {
	return unix.SockFilter{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, K: value, Jf: count}
}

func end(action uint32) unix.SockFilter {
	return unix.SockFilter{Code: unix.BPF_RET | unix.BPF_K, K: action}
}

// watchedCall is a kind of system call that is watched.
type watchedCall int

const (
	callConnect watchedCall = iota + 1
	callSendTo
	callSendMsg
	callSendMMsg
	callExec
	callExecAt
)

// abi is one of the ABIs in which a program may call the kernel.
type abi struct {
	arch    uint32 // an AUDIT_ARCH constant
	pointer int    // size of a pointer in bytes
	calls   map[uint32]watchedCall
}

// x32 marks calls of amd64's x32 ABI.
const x32 = 0x40000000

// abis returns the ABIs of this architecture, including those of 32-bit programs. The numbers
// are from the kernel's system call tables.
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

// find returns the watched call with a number, and the size of a pointer in its ABI; or 0.
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
