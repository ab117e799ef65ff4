package guest

import (
	"bytes"
	"encoding/binary"
	"testing"

	"golang.org/x/net/bpf"
	"golang.org/x/sys/unix"
)

// TestFilter runs the filter over calls of every kind of program. The kernel reads what
// a call is in the machine's order of bytes, and this reader of filters the other way
// round: so it is given that.
func TestFilter(t *testing.T) {
	known, err := abis()
	must(t, err)
	var program []bpf.RawInstruction
	for _, i := range notifyFilter(known) {
		program = append(program, bpf.RawInstruction{Op: i.Code, Jt: i.Jt, Jf: i.Jf, K: i.K})
	}
	code, ok := bpf.Disassemble(program)
	if !ok {
		t.Fatal("the filter has instructions that are none")
	}
	vm, err := bpf.NewVM(code)
	must(t, err)
	run := func(arch, number uint32, address uint64) uint32 {
		var call bytes.Buffer
		for _, v := range []any{number, arch, uint64(0), [4]uint64{}, address<<32 | address>>32, uint64(0)} {
			must(t, binary.Write(&call, binary.BigEndian, v))
		}
		result, err := vm.Run(call.Bytes())
		must(t, err)
		return uint32(result)
	}
	for _, a := range known {
		for number := range uint32(600) {
			for _, n := range []uint32{number, number | x32} {
				for _, address := range []uint64{0, 1, 1 << 40} {
					want := uint32(unix.SECCOMP_RET_ALLOW)
					if call := a.calls[n]; call != 0 && (call != callSendTo || address != 0) {
						want = unix.SECCOMP_RET_USER_NOTIF
					}
					if got := run(a.arch, n, address); got != want {
						t.Errorf("call %#x of %#x with %#x: %#x, want %#x", n, a.arch, address, got, want)
					}
				}
			}
		}
	}
	if got := run(unix.AUDIT_ARCH_S390X, known[0].first(), 1); got != unix.SECCOMP_RET_ALLOW {
		t.Errorf("a call of another architecture: %#x", got)
	}
}

// first is one of the calls.
func (a abi) first() uint32 {
	for number := range a.calls {
		return number
	}
	return 0
}
