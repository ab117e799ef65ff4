package guest

import (
	"fmt"
	"os"
	"os/signal"
	"unsafe"

	"golang.org/x/sys/unix"
)

// takeInSignals leaves no signal with its default effect but those that the kernel
// keeps from process 1.
//
// Signals that process 1 has a handler for reach it from inside its container too,
// and Go's end the process. Taken in, they do nothing, and programs we start have
// their defaults. There are three that Go leaves to C libraries, without a handler.
// The kernel drops such for process 1, but not while its first thread blocks
// signals, as Go's does when it makes another: it then ends the process. They are
// ignored; a C library that wants them sets its own handler.
func takeInSignals() error {
	signal.Notify(make(chan os.Signal, 1))
	for number := uintptr(32); number <= 34; number++ {
		ignore := struct{ handler, flags, restorer, mask uint64 }{handler: 1} // SIG_IGN
		_, _, errno := unix.RawSyscall6(unix.SYS_RT_SIGACTION, number, uintptr(unsafe.Pointer(&ignore)), 0, unsafe.Sizeof(ignore.mask), 0, 0)
		if errno != 0 {
			return fmt.Errorf("ignore signal %d: %w", number, errno)
		}
	}
	return nil
}
