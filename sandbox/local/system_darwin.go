package local

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// bootID identifies the system's boot; empty if that is not known.
func bootID() string {
	id, _ := unix.Sysctl("kern.bootsessionuuid")
	return id
}

// processStart returns when a process was started; empty if it is gone.
func processStart(pid int) string {
	info, err := unix.SysctlKinfoProc("kern.proc.pid", pid)
	if err != nil || int(info.Proc.P_pid) != pid {
		return ""
	}
	at := info.Proc.P_starttime
	return fmt.Sprintf("%d.%06d", at.Sec, at.Usec)
}
