package probe

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"time"

	"golang.org/x/sys/unix"
)

// riskyAttempts returns attacks on the guest, which is our parent. If one succeeds, the
// container may end, so they run after all others were reported.
func riskyAttempts() []attempt {
	on := func(name string, try func(guest int) result) attempt {
		return attempt{name, func(context.Context, Aims) result {
			guest := os.Getppid()
			if !isGuest(guest) {
				return untried("our parent is no guest")
			}
			return try(guest)
		}}
	}
	return []attempt{on("guest-memory", memory), on("guest-ptrace", ptrace), on("guest-freeze", freeze), on("guest-signals", signals)}
}

// isGuest reports whether a process is the guest, so that nothing else is attacked.
func isGuest(pid int) bool {
	line, err := os.ReadFile(proc(pid, "cmdline"))
	args := bytes.Split(line, []byte{0})
	return err == nil && len(args) > 1 && string(args[1]) == "guest" // the following arguments are its own
}

func proc(pid int, file string) string { return "/proc/" + strconv.Itoa(pid) + "/" + file }

// memory tries to open the guest's memory, stdin, environment and root.
func memory(guest int) result {
	flags := map[string]int{"mem": os.O_RDWR, "fd/0": os.O_WRONLY} // others are read
	return anyOf([]string{"mem", "fd/0", "environ", "maps", "root/etc"}, "%s of process 1 can be opened", func(file string) error {
		return readable(proc(guest, file), flags[file])
	})
}

// readable opens a file and, for reading, reads a byte, because some files only fail then.
func readable(path string, flags int) error {
	f, err := os.OpenFile(path, flags, 0)
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }()
	if flags != os.O_RDONLY {
		return nil
	}
	if info, err := f.Stat(); err != nil || info.IsDir() {
		_, err := f.Readdirnames(1)
		return err
	}
	_, err = f.Read(make([]byte, 1))
	return err
}

func ptrace(guest int) result {
	err := unix.PtraceSeize(guest)
	if err == nil {
		_ = unix.PtraceDetach(guest)
	}
	return unless(err, "process 1 can be traced")
}

// freeze tries to stop the guest.
func freeze(guest int) result {
	if err := unix.Kill(guest, unix.SIGSTOP); err != nil {
		return refused(err)
	}
	defer func() { _ = unix.Kill(guest, unix.SIGCONT) }()
	for range 20 {
		stat, err := os.ReadFile(proc(guest, "stat"))
		if err != nil {
			return untried(err.Error())
		}
		if bytes.Contains(stat, []byte(") T ")) || bytes.Contains(stat, []byte(") t ")) {
			return out("process 1 can be stopped")
		}
		time.Sleep(5 * time.Millisecond)
	}
	return refused(errors.New("process 1 goes on"))
}

// signals sends the guest every signal that could kill it, and checks whether it is still
// running. If it is not, neither are we.
func signals(guest int) result {
	for number := unix.Signal(1); number < 65; number++ {
		if number == unix.SIGSTOP || number == unix.SIGTSTP || number == unix.SIGTTIN || number == unix.SIGTTOU {
			continue
		}
		if err := unix.Kill(guest, number); err != nil && !errors.Is(err, unix.EINVAL) {
			return refused(fmt.Errorf("signal %d: %w", number, err))
		}
	}
	time.Sleep(100 * time.Millisecond)
	if os.Getppid() != guest {
		return out("process 1 ended")
	}
	return refused(errors.New("process 1 goes on"))
}
