package guest

import (
	"maps"
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
		out = append(out, load(offArch), jump(unix.BPF_JEQ, a.arch, 0, uint8(len(body))))
		out = append(out, body...)
	}
	return append(out, end(unix.SECCOMP_RET_ALLOW))
}

// callsFilter is the part for one architecture; it always ends.
func callsFilter(a abi) []unix.SockFilter {
	out := []unix.SockFilter{load(offNumber)}
	for _, number := range slices.Sorted(maps.Keys(a.calls)) {
		if a.calls[number] != callSendTo {
			out = append(out, jump(unix.BPF_JEQ, number, 0, 1), end(unix.SECCOMP_RET_USER_NOTIF))
			continue
		}
		// Without an address it is what servers write their answers with.
		out = append(out,
			jump(unix.BPF_JEQ, number, 0, 6),
			load(offArgs+sendToAddress*argSize), jump(unix.BPF_JEQ, 0, 0, 3),
			load(offArgs+sendToAddress*argSize+argSize/2), jump(unix.BPF_JEQ, 0, 0, 1),
			end(unix.SECCOMP_RET_ALLOW),
			end(unix.SECCOMP_RET_USER_NOTIF),
		)
	}
	return append(out, end(unix.SECCOMP_RET_ALLOW))
}

func load(offset uint32) unix.SockFilter {
	return unix.SockFilter{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, K: offset}
}

// jump skips as many instructions, where the comparison holds and where it does not.
func jump(comparison uint16, with uint32, holds, not uint8) unix.SockFilter {
	return unix.SockFilter{Code: unix.BPF_JMP | comparison | unix.BPF_K, K: with, Jt: holds, Jf: not}
}

func end(action uint32) unix.SockFilter {
	return unix.SockFilter{Code: unix.BPF_RET | unix.BPF_K, K: action}
}
