package local

import (
	"errors"
	"os"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

const straysMissing = "a program that leaves its process group and drops WAZA_SANDBOX from its environment outlives the trial"

// ownSession starts a program in its own session. The program is killed when the thread that
// started it exits, which lives as long as the runner.
func ownSession() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setsid: true, Pdeathsig: syscall.SIGKILL}
}

// awaitEnd waits for a child's exit without reaping it, so that its pid is not reused. It
// reports whether that succeeded.
func awaitEnd(pid int) bool {
	for {
		err := unix.Waitid(unix.P_PID, pid, nil, unix.WEXITED|unix.WNOWAIT, nil)
		if !errors.Is(err, unix.EINTR) {
			return err == nil
		}
	}
}

func signalName(s syscall.Signal) string { return unix.SignalName(s) }

// mayChange removes the file attributes that prevent even the owner from changing a file. Only root
// can set them (ioctl_iflags(2)).
func mayChange(dir *os.Root, name string) {
	if os.Geteuid() != 0 {
		return
	}
	file, err := dir.OpenFile(name, os.O_RDONLY|unix.O_NONBLOCK, 0)
	if err != nil {
		return
	}
	defer func() { _ = file.Close() }()
	const fixed = 0x10 | 0x20 // FS_IMMUTABLE_FL and FS_APPEND_FL
	flags, err := unix.IoctlGetInt(int(file.Fd()), unix.FS_IOC_GETFLAGS)
	if err == nil && flags&fixed != 0 {
		_ = unix.IoctlSetPointerInt(int(file.Fd()), unix.FS_IOC_SETFLAGS, flags&^fixed)
	}
}

// unmountBelow detaches everything mounted on a directory or below it.
func unmountBelow(dir string) {
	mounts, _ := os.ReadFile("/proc/self/mountinfo")
	for line := range strings.Lines(string(mounts)) {
		fields := strings.Fields(line)
		if len(fields) < 5 {
			continue
		}
		if at := unescaped(fields[4]); at == dir || strings.HasPrefix(at, dir+"/") {
			_ = unix.Unmount(at, unix.MNT_DETACH|unix.UMOUNT_NOFOLLOW)
		}
	}
}

// unescaped returns a path of mountinfo, in which a few bytes are written in octal (proc(5)).
func unescaped(path string) string {
	return strings.NewReplacer(`\040`, " ", `\011`, "\t", `\012`, "\n", `\134`, `\`).Replace(path)
}

const (
	// markedRounds limits how often marked processes are searched, as they may start others
	// meanwhile.
	markedRounds = 50
	markedPause  = 20 * time.Millisecond
)

// killMarked kills all of the user's processes with a mark, until there are none. It returns
// how many it found.
func killMarked(mark string) (killed int) {
	for range markedRounds {
		found := 0
		for _, pid := range processes() {
			if carries(pid, mark) {
				killOne(pid, mark)
				found++
			}
		}
		if found == 0 {
			return killed
		}
		killed = max(killed, found)
		time.Sleep(markedPause)
	}
	return killed
}

func processes() (pids []int) {
	entries, _ := os.ReadDir("/proc")
	for _, entry := range entries {
		if pid, err := strconv.Atoi(entry.Name()); err == nil && pid != os.Getpid() {
			pids = append(pids, pid)
		}
	}
	return pids
}

// carries reports whether a process has a mark. Environments of other users cannot be read.
func carries(pid int, mark string) bool {
	environ, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/environ")
	return err == nil && isMarked(string(environ), mark)
}

// killOne kills a process, but not another one that has reused its pid.
func killOne(pid int, mark string) {
	fd, err := unix.PidfdOpen(pid, 0)
	if err != nil { // it has exited, or Linux is older than 5.3
		if errors.Is(err, unix.ENOSYS) {
			_ = unix.Kill(pid, unix.SIGKILL)
		}
		return
	}
	defer func() { _ = unix.Close(fd) }()
	if carries(pid, mark) {
		_ = unix.PidfdSendSignal(fd, unix.SIGKILL, nil, 0)
	}
}
