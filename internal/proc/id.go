package proc

import (
	"os"
	"strconv"
	"strings"
)

// BootID returns an identifier of the current boot, or "" if it is unknown.
func BootID() string {
	id, _ := os.ReadFile("/proc/sys/kernel/random/boot_id")
	return strings.TrimSpace(string(id))
}

// Namespace identifies the PID namespace of this process within [BootID], since processes
// in a container have their own numbers. It returns "" if it is unknown.
func Namespace() string {
	name, _ := os.Readlink("/proc/self/ns/pid")
	return name
}

// StartTime returns the start time of a process in clock ticks since boot (proc(5), field
// 22 of stat), or "" if it is unknown; PIDs alone are reused. zombie reports whether the
// process has ended and waits to be reaped.
func StartTime(pid int) (ticks string, zombie bool) {
	stat, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return "", false
	}
	_, rest, ok := strings.Cut(string(stat), ") ") // the name before it may contain anything
	fields := strings.Fields(rest)
	if !ok || len(fields) < 20 {
		return "", false
	}
	return fields[19], fields[0] == "Z"
}
