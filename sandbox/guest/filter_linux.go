package guest

import (
	"fmt"
	"maps"
	"runtime"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/waza-isolate/waza/internal/defence"
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

// filter is a seccomp filter for programs.
type filter struct {
	watched bool // notify us of every watched call
	nested  bool // let programs add filters of their own
}

// program returns the filter for all ABIs. It notifies us of watched calls, rejects calls that add
// filters, which use up a limit of the whole machine, and ignores new limits of core dumps. All
// other calls are allowed. Programs can add filters that deny calls, but cannot suppress
// notifications: among actions that let a call continue, the kernel gives precedence to the
// notification.
func (f filter) program(all []abi) []unix.SockFilter {
	var out []unix.SockFilter
	for _, a := range all {
		body := f.calls(a)
		out = append(out, load(offArch), skipUnless(a.arch, uint8(len(body))))
		out = append(out, body...)
	}
	return append(out, end(unix.SECCOMP_RET_ALLOW))
}

// calls returns the part of the filter for one ABI. It always returns an action.
func (f filter) calls(a abi) []unix.SockFilter {
	out := []unix.SockFilter{load(offNumber)}
	for _, number := range slices.Sorted(maps.Keys(a.calls)) {
		if body := f.call(a.calls[number]); body != nil {
			out = append(out, skipUnless(number, uint8(len(body))))
			out = append(out, body...)
		}
	}
	return append(out, end(unix.SECCOMP_RET_ALLOW))
}

// call returns the part of the filter for one kind of call, or nil if it is allowed. It always
// returns an action.
func (f filter) call(kind watchedCall) []unix.SockFilter {
	switch kind {
	case callPrctl, callSeccomp:
		if !defence.NoFilters || f.nested {
			return nil
		}
		// A kernel without such filters answers with EINVAL, and programs that can do without
		// them go on.
		if kind == callSeccomp {
			return []unix.SockFilter{
				loadArg(0), skipUnless(unix.SECCOMP_SET_MODE_FILTER, 1), end(refuse(unix.EINVAL)),
				end(unix.SECCOMP_RET_ALLOW),
			}
		}
		return []unix.SockFilter{
			loadArg(0), skipUnless(unix.PR_SET_SECCOMP, 3), loadArg(1), skipUnless(unix.SECCOMP_MODE_FILTER, 1), end(refuse(unix.EINVAL)),
			end(unix.SECCOMP_RET_ALLOW),
		}
	case callSetrlimit, callPrlimit:
		if !defence.NoCoreDumps {
			return nil
		}
		// A new limit is ignored: see limitCores.
		if kind == callSetrlimit {
			return []unix.SockFilter{loadArg(0), skipUnless(unix.RLIMIT_CORE, 1), end(refuse(0)), end(unix.SECCOMP_RET_ALLOW)}
		}
		return []unix.SockFilter{
			loadArg(1), skipUnless(unix.RLIMIT_CORE, 9),
			loadArg(2), skipUnless(0, 3), loadUpper(2), skipUnless(0, 1), end(unix.SECCOMP_RET_ALLOW), // only reads the limit
			loadArg(3), skipUnless(0, 1), end(refuse(0)),
			end(refuse(unix.EPERM)), // also reads the old limit
			end(unix.SECCOMP_RET_ALLOW),
		}
	}
	if !f.watched {
		return nil
	}
	if kind == callSendTo { // servers use sendto without an address to write responses
		return []unix.SockFilter{
			loadArg(sendToAddress), skipUnless(0, 3), loadUpper(sendToAddress), skipUnless(0, 1), end(unix.SECCOMP_RET_ALLOW),
			end(unix.SECCOMP_RET_USER_NOTIF),
		}
	}
	return []unix.SockFilter{end(unix.SECCOMP_RET_USER_NOTIF)}
}

// refuse returns the action that makes a call return an error, or success if errno is 0, without
// executing it.
func refuse(errno unix.Errno) uint32 { return unix.SECCOMP_RET_ERRNO | uint32(errno) }

// loadArg loads the lower half of an argument, and loadUpper the upper one.
func loadArg(index uint32) unix.SockFilter   { return load(offArgs + index*argSize) }
func loadUpper(index uint32) unix.SockFilter { return load(offArgs + index*argSize + argSize/2) }

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

// watchedCall is a kind of system call that is watched or refused.
type watchedCall int

const (
	callConnect watchedCall = iota + 1
	callSendTo
	callSendMsg
	callSendMMsg
	callExec
	callExecAt
	callPrctl
	callSeccomp
	callSetrlimit
	callPrlimit
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
				157: callPrctl, 317: callSeccomp, 160: callSetrlimit, 302: callPrlimit,
				x32 | 42: callConnect, x32 | 44: callSendTo, x32 | 518: callSendMsg, x32 | 538: callSendMMsg, x32 | 520: callExec, x32 | 545: callExecAt,
				x32 | 157: callPrctl, x32 | 317: callSeccomp, x32 | 160: callSetrlimit, x32 | 302: callPrlimit,
			}},
			{unix.AUDIT_ARCH_I386, 4, map[uint32]watchedCall{
				362: callConnect, 369: callSendTo, 370: callSendMsg, 345: callSendMMsg, 11: callExec, 358: callExecAt,
				172: callPrctl, 354: callSeccomp, 75: callSetrlimit, 340: callPrlimit,
			}},
		}, nil
	case "arm64":
		return []abi{
			{unix.AUDIT_ARCH_AARCH64, 8, map[uint32]watchedCall{
				203: callConnect, 206: callSendTo, 211: callSendMsg, 269: callSendMMsg, 221: callExec, 281: callExecAt,
				167: callPrctl, 277: callSeccomp, 164: callSetrlimit, 261: callPrlimit,
			}},
			{unix.AUDIT_ARCH_ARM, 4, map[uint32]watchedCall{
				283: callConnect, 290: callSendTo, 296: callSendMsg, 374: callSendMMsg, 11: callExec, 387: callExecAt,
				172: callPrctl, 383: callSeccomp, 75: callSetrlimit, 369: callPrlimit,
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
