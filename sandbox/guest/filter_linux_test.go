package guest

import (
	"bytes"
	"encoding/binary"
	"testing"

	"golang.org/x/net/bpf"
	"golang.org/x/sys/unix"
)

// TestFilter runs the filters over calls of every kind of program. The kernel reads what
// a call is in the machine's order of bytes, and this reader of filters the other way
// round: so it is given that.
func TestFilter(t *testing.T) {
	known, err := abis()
	must(t, err)
	const pointer = 1 << 40 // its lower half is 0
	allArgs := [][6]uint64{
		{}, {4: 1}, {4: pointer},
		{unix.PR_SET_SECCOMP, unix.SECCOMP_MODE_FILTER, pointer}, {pointer | unix.PR_SET_SECCOMP, unix.SECCOMP_MODE_FILTER},
		{unix.PR_SET_SECCOMP, unix.SECCOMP_MODE_STRICT}, {unix.PR_GET_SECCOMP, unix.SECCOMP_MODE_FILTER},
		{unix.SECCOMP_SET_MODE_FILTER, 0, pointer}, {pointer | unix.SECCOMP_SET_MODE_FILTER}, {unix.SECCOMP_GET_ACTION_AVAIL},
		{unix.RLIMIT_CORE, pointer}, {pointer | unix.RLIMIT_CORE, pointer}, {unix.RLIMIT_NOFILE, pointer},
		{0, unix.RLIMIT_CORE, pointer}, {0, unix.RLIMIT_CORE, 1}, {0, pointer | unix.RLIMIT_CORE, pointer}, {0, unix.RLIMIT_CORE, 1, 1},
		{0, unix.RLIMIT_CORE, 0, 1}, {0, unix.RLIMIT_NOFILE, pointer, 1},
	}
	for _, f := range []filter{{}, {watched: true}, {nested: true}, {watched: true, nested: true}} {
		run := filterReader(t, f.program(known))
		for _, a := range known {
			for number := range uint32(600) {
				for _, n := range []uint32{number, number | x32} {
					for _, args := range allArgs {
						if got, want := run(a.arch, n, args), f.wanted(a.calls[n], args); got != want {
							t.Errorf("%+v: call %#x of %#x with %#x: %#x, want %#x", f, n, a.arch, args, got, want)
						}
					}
				}
			}
		}
		if got := run(unix.AUDIT_ARCH_S390X, known[0].first(), [6]uint64{4: 1}); got != unix.SECCOMP_RET_ALLOW {
			t.Errorf("a call of another architecture: %#x", got)
		}
	}
}

// filterReader returns what a filter says of a call.
func filterReader(t *testing.T, filter []unix.SockFilter) func(arch, number uint32, args [6]uint64) uint32 {
	t.Helper()
	var program []bpf.RawInstruction
	for _, i := range filter {
		program = append(program, bpf.RawInstruction{Op: i.Code, Jt: i.Jt, Jf: i.Jf, K: i.K})
	}
	code, ok := bpf.Disassemble(program)
	if !ok {
		t.Fatal("the filter has instructions that are none")
	}
	vm, err := bpf.NewVM(code)
	must(t, err)
	return func(arch, number uint32, args [6]uint64) uint32 {
		var call bytes.Buffer
		for i, arg := range args {
			args[i] = arg<<32 | arg>>32
		}
		for _, v := range []any{number, arch, uint64(0), args} {
			must(t, binary.Write(&call, binary.BigEndian, v))
		}
		result, err := vm.Run(call.Bytes())
		must(t, err)
		return uint32(result)
	}
}

// wanted is what a filter should say of a call.
func (f filter) wanted(call watchedCall, args [6]uint64) uint32 {
	first, second := uint32(args[0]), uint32(args[1])
	switch call {
	case callPrctl:
		if !f.nested && first == unix.PR_SET_SECCOMP && second == unix.SECCOMP_MODE_FILTER {
			return unix.SECCOMP_RET_ERRNO | uint32(unix.EINVAL)
		}
	case callSeccomp:
		if !f.nested && first == unix.SECCOMP_SET_MODE_FILTER {
			return unix.SECCOMP_RET_ERRNO | uint32(unix.EINVAL)
		}
	case callSetrlimit:
		if first == unix.RLIMIT_CORE {
			return unix.SECCOMP_RET_ERRNO
		}
	case callPrlimit:
		if second == unix.RLIMIT_CORE && args[2] != 0 {
			if args[3] != 0 {
				return unix.SECCOMP_RET_ERRNO | uint32(unix.EPERM)
			}
			return unix.SECCOMP_RET_ERRNO
		}
	case 0:
	default:
		if f.watched && (call != callSendTo || args[sendToAddress] != 0) {
			return unix.SECCOMP_RET_USER_NOTIF
		}
	}
	return unix.SECCOMP_RET_ALLOW
}

// first is one of the calls.
func (a abi) first() uint32 {
	for number := range a.calls {
		return number
	}
	return 0
}
