// Command stray does what servers must not do, and tries to avoid being observed. Its first
// argument selects an action. It prints what succeeds but must not.
package main

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"unsafe"

	"golang.org/x/sys/unix"
)

func main() {
	acts := map[string]func(args []string) error{
		"connect": connect,
		"write":   write,
		"start":   func([]string) error { return again("nothing") },
		"nothing": func([]string) error { return nil },
		"silence": silence,
		"hide":    hide,
		"memory":  memory,
		"storm":   storm,
	}
	if len(os.Args) < 2 || acts[os.Args[1]] == nil {
		fmt.Println("no such act")
		os.Exit(2)
	}
	if err := acts[os.Args[1]](os.Args[2:]); err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
}

func connect([]string) error {
	knock("192.0.2.1", 80)
	knock("169.254.169.254", 80)
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM, 0)
	if err != nil {
		return err
	}
	_ = unix.Connect(fd, &unix.SockaddrUnix{Name: "/run/nobody.sock"})
	return nil
}

// knock tries to connect to an unreachable address.
func knock(address string, port int) {
	var to unix.SockaddrInet4
	if _, err := fmt.Sscanf(address, "%d.%d.%d.%d", &to.Addr[0], &to.Addr[1], &to.Addr[2], &to.Addr[3]); err != nil {
		return
	}
	to.Port = port
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM, 0)
	if err != nil {
		return
	}
	_ = unix.Connect(fd, &to)
	_ = unix.Close(fd)
}

// write creates files in /tmp and in the given directory.
func write(args []string) error {
	for path, mode := range map[string]os.FileMode{
		"/tmp/two\nlines": 0o644, filepath.Join(args[0], ".profile"): 0o644, "/dev/shm/left": 0o4755,
	} {
		if err := os.WriteFile(path, []byte("left"), mode); err != nil {
			return err
		}
	}
	if err := os.Symlink("/", "/tmp/root"); err != nil {
		return err
	}
	if err := os.MkdirAll("/tmp/closed/inner", 0o755); err != nil {
		return err
	}
	return os.Chmod("/tmp/closed", 0)
}

// again runs this program three times.
func again(args ...string) error {
	for range 3 {
		if err := exec.Command("/proc/self/exe", args...).Run(); err != nil {
			return err
		}
	}
	return nil
}

// silence tries to kill, stop, trace and inspect process 1, and to receive its seccomp
// notifications.
func silence([]string) error {
	runtime.LockOSThread()
	for _, signal := range []unix.Signal{unix.SIGKILL, unix.SIGSTOP, unix.SIGTERM, unix.SIGSEGV} {
		_ = unix.Kill(1, signal)
	}
	for what, worked := range map[string]bool{
		"traces process 1":            unix.PtraceAttach(1) == nil,
		"lists what process 1 opened": opens("/proc/1/fd"),
		"opens its memory":            opens("/proc/1/mem"),
		"is told in its place":        filter(unix.SECCOMP_FILTER_FLAG_NEW_LISTENER) == nil,
	} {
		if worked {
			return fmt.Errorf("it %s", what)
		}
	}
	if err := filter(0); err != nil {
		return err
	}
	knock("192.0.2.77", 7)
	return nil
}

func opens(path string) bool {
	file, err := os.Open(path)
	if err != nil {
		return false
	}
	defer func() { _ = file.Close() }()
	_, err = file.Readdirnames(1)
	return err == nil
}

// filter installs another seccomp filter for this thread, which allows everything.
func filter(flags uintptr) error {
	allow := []unix.SockFilter{{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_ALLOW}}
	program := unix.SockFprog{Len: 1, Filter: &allow[0]}
	if _, _, errno := unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, flags, uintptr(unsafe.Pointer(&program))); errno != 0 {
		return errno
	}
	return nil
}

// hide prevents others from reading its memory: first by running an unreadable executable, then
// with PR_SET_DUMPABLE.
func hide([]string) error {
	self, err := os.Open("/proc/self/exe")
	if err != nil {
		return err
	}
	unreadable, err := os.OpenFile("/tmp/unreadable", os.O_CREATE|os.O_WRONLY, 0o111)
	if err != nil {
		return err
	}
	if _, err := io.Copy(unreadable, self); err != nil {
		return err
	}
	if err := unreadable.Close(); err != nil {
		return err
	}
	if err := exec.Command("/tmp/unreadable", "connect").Run(); err != nil {
		return err
	}
	if err := unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0); err != nil {
		return err
	}
	knock("192.0.2.78", 7)
	return unix.Exec("/tmp/stray", []string{"stray", "nothing"}, nil)
}

// memory executes a program from memory.
func memory([]string) error {
	fd, err := unix.MemfdCreate("nowhere", 0)
	if err != nil {
		return err
	}
	self, err := os.ReadFile("/proc/self/exe")
	if err != nil {
		return err
	}
	if _, err := unix.Write(fd, self); err != nil {
		return err
	}
	return unix.Exec(fmt.Sprintf("/proc/self/fd/%d", fd), []string{"nowhere", "nothing"}, nil)
}

// storm connects and starts programs, args[0] and args[1] times.
func storm(args []string) error {
	connects, err := strconv.Atoi(args[0])
	if err != nil {
		return err
	}
	starts, err := strconv.Atoi(args[1])
	if err != nil {
		return err
	}
	for i := range connects {
		knock("192.0.2.1", 1+i%65_000)
	}
	for range starts {
		if err := exec.Command("/tmp/stray", "nothing").Run(); err != nil {
			return err
		}
	}
	return nil
}
