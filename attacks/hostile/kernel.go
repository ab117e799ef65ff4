package main

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/waza-isolate/waza/attacks/part"
)

// kernelActs returns the acts that make system calls that no container needs, each on a
// separate thread.
func kernelActs() map[string]act {
	tries := func(role string) func(context.Context) []part.Word {
		return func(context.Context) []part.Word {
			var words []part.Word
			for _, w := range wishes() {
				words = append(words, onThread(w, role))
			}
			return words
		}
	}
	return map[string]act{part.Kernel: {agent: tries(agent), tool: tries(stdioServer)}}
}

// wish is a system call that succeeds if it returns no error.
type wish struct {
	attack string
	try    func() error
}

func onThread(a wish, role string) part.Word {
	done := make(chan error)
	go func() {
		runtime.LockOSThread() // and never unlocked, so that the thread is discarded
		done <- a.try()
	}()
	err := <-done
	w := part.Word{Attack: a.attack, Won: err == nil, Detail: "as " + role + ": granted"}
	if err != nil {
		w.Detail = "as " + role + ": " + err.Error()
	}
	return w
}

// process1 is the process ID of the guest.
const process1 = 1

func wishes() []wish {
	return []wish{
		{"userfaultfd", func() error {
			const userModeOnly = 1
			fd, _, errno := unix.Syscall(unix.SYS_USERFAULTFD, unix.O_CLOEXEC|userModeOnly, 0, 0)
			return closed(fd, errno)
		}},
		{"unshare", func() error {
			return firstGranted(
				func() error { return unix.Unshare(unix.CLONE_NEWNS) },
				func() error { return unix.Unshare(unix.CLONE_NEWUTS) },
				func() error { return unix.Unshare(unix.CLONE_NEWNET) },
				func() error { return unix.Unshare(unix.CLONE_NEWIPC) },
				func() error { return unix.Unshare(unix.CLONE_NEWCGROUP) },
			)
		}},
		{"setns", func() error { return opens("/proc/1/ns/mnt", "/proc/1/ns/net", "/proc/1/ns/pid", "/proc/1/ns/user") }},
		{"guest-vm-read", func() error {
			var into [8]byte
			local := unix.Iovec{Base: &into[0], Len: uint64(len(into))}
			// The address does not matter: permissions are checked first.
			_, err := unix.ProcessVMReadv(process1, []unix.Iovec{local}, []unix.RemoteIovec{{Base: 0x400000, Len: len(into)}}, 0)
			return unlessOnly(err, unix.EFAULT)
		}},
		{"guest-descriptors", func() error {
			pidfd, err := unix.PidfdOpen(process1, 0)
			if err != nil {
				return err
			}
			fd, err := unix.PidfdGetfd(pidfd, 0, 0)
			return closed(uintptr(fd), err)
		}},
		{"open-by-handle", func() error {
			handle := unix.NewFileHandle(1, make([]byte, 8))
			dir, err := unix.Open("/", unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
			if err != nil {
				return err
			}
			_, err = unix.OpenByHandleAt(dir, handle, unix.O_RDONLY)
			return unlessOnly(err, unix.ESTALE, unix.EINVAL, unix.EOPNOTSUPP)
		}},
		{"chroot", func() error { return unix.Chroot("/") }},
		{"set-hostname", func() error { return unix.Sethostname([]byte("hostile")) }},
		{"fanotify", func() error {
			fd, err := unix.FanotifyInit(unix.FAN_CLASS_NOTIF|unix.FAN_CLOEXEC|unix.FAN_REPORT_FID, 0)
			return closed(uintptr(fd), err)
		}},
		{"swapon", func() error {
			path, _ := unix.BytePtrFromString("/no-such-file")
			_, _, errno := unix.Syscall(unix.SYS_SWAPON, uintptr(unsafe.Pointer(path)), 0, 0)
			return unlessOnly(errno, unix.ENOENT)
		}},
		{"crypto-socket", func() error {
			fd, err := unix.Socket(unix.AF_ALG, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
			if errors.Is(err, unix.EAFNOSUPPORT) { // the kernel handled the call
				return nil
			}
			return closed(uintptr(fd), err)
		}},
		{"high-bits", func() error {
			const above = 1 << 32 // the kernel reads 32 bits of the family, a careless filter 64
			fd, _, errno := unix.Syscall(unix.SYS_SOCKET, above|unix.AF_VSOCK, unix.SOCK_STREAM, 0)
			return closed(fd, errno)
		}},
		{"release-agent", func() error { return writes(matches("/sys/fs/cgroup/*/release_agent")...) }},
		{"cgroup-limits", func() error {
			return writes(matches("/sys/fs/cgroup/*/memory.limit_in_bytes", "/sys/fs/cgroup/*/pids.max", "/sys/fs/cgroup/memory.max")...)
		}},
		{"core-pattern", func() error { return writes("/proc/sys/kernel/core_pattern") }},
		{"guest-oom-score", func() error { return writes("/proc/" + strconv.Itoa(process1) + "/oom_score_adj") }},
	}
}

// closed closes a descriptor if the call that returned it succeeded.
func closed[E error](fd uintptr, err E) error {
	if any(err) != nil && any(err) != any(unix.Errno(0)) {
		return err
	}
	return unix.Close(int(fd))
}

// unlessOnly treats errors that occur after the permission check as success.
func unlessOnly(err error, after ...error) error {
	for _, e := range append(after, unix.Errno(0)) {
		if errors.Is(err, e) {
			return nil
		}
	}
	return err
}

func matches(patterns ...string) []string {
	var all []string
	for _, p := range patterns {
		found, _ := filepath.Glob(p)
		all = append(all, found...)
	}
	return all
}

func firstGranted(tries ...func() error) error {
	var errs []string
	for _, try := range tries {
		err := try()
		if err == nil {
			return nil
		}
		errs = append(errs, err.Error())
	}
	if len(errs) == 0 {
		return errors.New("there is none")
	}
	return errors.New(strings.Join(errs, ", "))
}

// writes opens files for writing without writing.
func writes(paths ...string) error { return openAny(os.O_WRONLY, paths) }

func opens(paths ...string) error { return openAny(os.O_RDONLY, paths) }

func openAny(flags int, paths []string) error {
	var tries []func() error
	for _, path := range paths {
		tries = append(tries, func() error {
			f, err := os.OpenFile(path, flags, 0)
			if err != nil {
				return unlessOnly(err, unix.ETXTBSY)
			}
			return f.Close()
		})
	}
	return firstGranted(tries...)
}
