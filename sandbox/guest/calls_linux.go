package guest

import (
	"fmt"
	"runtime"

	"golang.org/x/sys/unix"
)

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
