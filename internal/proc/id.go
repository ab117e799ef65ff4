package proc

import (
	"os"
	"strconv"
	"strings"
)

// BootID identifies the boot of this system; empty if it cannot be read.
func BootID() string {
	id, _ := os.ReadFile("/proc/sys/kernel/random/boot_id")
	return strings.TrimSpace(string(id))
}

// Namespace identifies the namespace of this process's number within [BootID]: processes of a
// container are numbered apart from those of its host. It is empty if it cannot be read.
func Namespace() string {
	name, _ := os.Readlink("/proc/self/ns/pid")
	return name
}

// StartTime returns when a process was started, in clock ticks since boot (proc(5), field 22
// of stat), since numbers of processes are used again; empty if it cannot be read. A zombie has
// ended and waits to be collected.
func StartTime(pid int) (ticks string, zombie bool) {
	stat, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return "", false
	}
	_, rest, ok := strings.Cut(string(stat), ") ") // the name before it may hold anything
	fields := strings.Fields(rest)
	if !ok || len(fields) < 20 {
		return "", false
	}
	return fields[19], fields[0] == "Z"
}
