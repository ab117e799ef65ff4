// Command stray does what a server is not trusted not to do, and tries to do it unseen.
// Its first argument says what; it prints what succeeds of what must not.
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

// knock tries to connect to an address that leads nowhere.
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

// write leaves files in /tmp and in the directory that it is given.
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

// silence tries to end, stop, trace and open process 1, and to be told in its place.
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

// filter puts this thread under another filter, which lets everything go on.
func filter(flags uintptr) error {
	allow := []unix.SockFilter{{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_ALLOW}}
	program := unix.SockFprog{Len: 1, Filter: &allow[0]}
	if _, _, errno := unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, flags, uintptr(unsafe.Pointer(&program))); errno != 0 {
		return errno
	}
	return nil
}

// hide lets nobody read its memory, first by its own word, then as a program that
// nobody may read.
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

// memory starts a program that is no file.
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

// storm connects and starts programs as often as it is told.
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
