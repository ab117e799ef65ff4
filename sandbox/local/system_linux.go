package local

import (
	"errors"
	"os"
	"strconv"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/waza-isolate/waza/internal/proc"
)

const straysMissing = "a program that leaves its process group and drops WAZA_SANDBOX from its environment outlives the trial"

// ownSession has a program lead a session and a group, and end with the thread
// that started it, which lasts as long as the runner.
func ownSession() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setsid: true, Pdeathsig: syscall.SIGKILL}
}

// awaitEnd waits for a child's end and does not collect it: until that is done,
// nobody else gets its number. It reports whether it could.
func awaitEnd(pid int) bool {
	for {
		err := unix.Waitid(unix.P_PID, pid, nil, unix.WEXITED|unix.WNOWAIT, nil)
		if !errors.Is(err, unix.EINTR) {
			return err == nil
		}
	}
}

func signalName(s syscall.Signal) string { return unix.SignalName(s) }

// bootID identifies the system's boot; empty if that is not known.
func bootID() string { return proc.BootID() }

// processStart returns when a process was started; empty if it is gone, or only waits
// to be collected.
func processStart(pid int) string {
	start, zombie := proc.StartTime(pid)
	if zombie {
		return ""
	}
	return start
}

const (
	// markedRounds is how often marked programs are looked for: they may start
	// others meanwhile.
	markedRounds = 50
	markedPause  = 20 * time.Millisecond
)

// killMarked kills every program of the user that carries a mark, until there is
// none, and returns how many it found.
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

// carries reports whether a program has a mark. Others' cannot be read.
func carries(pid int, mark string) bool {
	environ, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/environ")
	return err == nil && isMarked(string(environ), mark)
}

// killOne kills the program that has the number now, and no later one.
func killOne(pid int, mark string) {
	fd, err := unix.PidfdOpen(pid, 0)
	if err != nil { // gone, or Linux before 5.3
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
