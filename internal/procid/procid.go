// Package procid identifies processes by boot, start time and number, since numbers are
// used again.
package procid

import (
	"os"
	"strconv"
	"strings"
)

// BootID names the system's run; empty where that cannot be told.
func BootID() string {
	id, _ := os.ReadFile("/proc/sys/kernel/random/boot_id")
	return strings.TrimSpace(string(id))
}

// Namespace names what this process has its number in, within [BootID]: processes of
// a container have others than those of its host. Empty where that cannot be told.
func Namespace() string {
	name, _ := os.Readlink("/proc/self/ns/pid")
	return name
}

// Start is when a process was started, in clock ticks since boot (proc(5), field 22
// of stat); empty where that cannot be told. zombie says that it has ended and only
// waits to be collected.
func Start(pid int) (ticks string, zombie bool) {
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
