package local

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// bootID identifies the current boot, or is "".
func bootID() string {
	id, _ := unix.Sysctl("kern.bootsessionuuid")
	return id
}

// processStart returns the start time of a process, or "" if it does not exist.
func processStart(pid int) string {
	info, err := unix.SysctlKinfoProc("kern.proc.pid", pid)
	if err != nil || int(info.Proc.P_pid) != pid {
		return ""
	}
	at := info.Proc.P_starttime
	return fmt.Sprintf("%d.%06d", at.Sec, at.Usec)
}
