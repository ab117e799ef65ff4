package probe

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

func kernelAttempts() []attempt {
	return []attempt{
		plain("mount", mounts),
		plain("user-namespace", userNamespace),
		plain("setuid", setuid),
		plain("keyring", func() result {
			_, err := unix.KeyctlGetKeyringID(unix.KEY_SPEC_SESSION_KEYRING, false)
			return unless(err, "the kernel's keys, which no container has for itself, can be asked for")
		}),
		plain("bpf", func() result {
			attr := [4]uint32{2 /* BPF_MAP_TYPE_ARRAY */, 4, 4, 1}
			fd, _, errno := unix.Syscall(unix.SYS_BPF, 0 /* BPF_MAP_CREATE */, uintptr(unsafe.Pointer(&attr)), unsafe.Sizeof(attr))
			return descriptor(fd, errno, "the kernel can be given BPF maps and programs")
		}),
		plain("perf-events", func() result {
			attr := unix.PerfEventAttr{Type: unix.PERF_TYPE_SOFTWARE, Config: unix.PERF_COUNT_SW_TASK_CLOCK, Bits: unix.PerfBitExcludeKernel | unix.PerfBitExcludeHv}
			attr.Size = uint32(unsafe.Sizeof(attr))
			fd, err := unix.PerfEventOpen(&attr, 0, -1, -1, unix.PERF_FLAG_FD_CLOEXEC)
			return descriptor(uintptr(fd), err, "performance events can be opened")
		}),
		plain("io-uring", func() result {
			var params [120]byte
			fd, _, errno := unix.Syscall(unix.SYS_IO_URING_SETUP, 4, uintptr(unsafe.Pointer(&params[0])), 0)
			return descriptor(fd, errno, "io_uring can be set up, which goes around every filter of system calls")
		}),
		plain("kernel-module", func() result {
			// The permission is checked before the descriptor.
			err := unix.FinitModule(-1, "", 0)
			switch {
			case errors.Is(err, unix.ENOSYS):
				return untried("this kernel has no modules")
			case errors.Is(err, unix.EBADF):
				return out("kernel modules can be loaded")
			}
			return refused(err)
		}),
		plain("kernel-log", func() result {
			const readAll = 3
			_, err := unix.Klogctl(readAll, make([]byte, 16))
			return unless(err, "the kernel's log can be read")
		}),
		plain("make-device", makeDevice),
		plain("add-filter", addFilter),
		plain("core-dump", coreDump),
	}
}

// addFilter tries every system call that adds a filter. The kernel reads the filter only if it may
// be added.
func addFilter() result {
	var errs []error
	for _, call := range [][3]uintptr{
		{unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, 0},
		{unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, unix.SECCOMP_FILTER_FLAG_TSYNC},
		{unix.SYS_PRCTL, unix.PR_SET_SECCOMP, unix.SECCOMP_MODE_FILTER},
	} {
		_, _, errno := unix.Syscall(call[0], call[1], call[2], 0)
		if errno == unix.EFAULT {
			return out("filters can be added, which use up the machine's memory for compiled filters")
		}
		errs = append(errs, errno)
	}
	return result{Refused, summary(errs)}
}

// userNamespace starts our executable without a valid command in a new user namespace, because
// a multithreaded process cannot enter one itself.
func userNamespace() result {
	pid, err := syscall.ForkExec("/proc/self/exe", []string{"waza", Subcommand}, &syscall.ProcAttr{
		Sys: &syscall.SysProcAttr{Cloneflags: unix.CLONE_NEWUSER},
	})
	if err != nil {
		return refused(err)
	}
	_ = unix.Kill(pid, unix.SIGKILL)
	_, _ = unix.Wait4(pid, nil, 0, nil)
	return out("a user namespace can be made")
}

func descriptor[E error](fd uintptr, err E, done string) result {
	if any(err) != nil && any(err) != any(unix.Errno(0)) {
		return refused(err)
	}
	_ = unix.Close(int(fd))
	return result{Out, done}
}

// mounts tries three ways to mount something on its own directory.
func mounts() result {
	dir, err := os.MkdirTemp(os.TempDir(), "mount-")
	if err != nil {
		return untried(err.Error())
	}
	defer func() { _ = os.Remove(dir) }()
	var errs []error
	for _, m := range []struct {
		source, kind string
		flags        uintptr
	}{{"none", "tmpfs", 0}, {"/", "", unix.MS_BIND}, {"none", "proc", 0}} {
		err := unix.Mount(m.source, dir, m.kind, m.flags, "")
		if err == nil {
			_ = unix.Unmount(dir, unix.MNT_DETACH)
			return out("%s can be mounted", cmp.Or(m.kind, "a directory"))
		}
		errs = append(errs, err)
	}
	fd, err := unix.Fsopen("tmpfs", unix.FSOPEN_CLOEXEC)
	if err == nil {
		_ = unix.Close(fd)
		return out("file systems can be opened")
	}
	return result{Refused, summary(append(errs, err))}
}

// setuid tries to become root, and checks whether setuid programs would gain privileges.
func setuid() result {
	if os.Getuid() == 0 {
		return out("it is root already")
	}
	if _, _, errno := unix.RawSyscall(unix.SYS_SETUID, 0, 0, 0); errno == 0 {
		return out("it became root")
	}
	if set, err := unix.PrctlRetInt(unix.PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0); err != nil || set != 1 {
		return out("a setuid program of the image makes it root")
	}
	return refused(errors.New("setuid fails, and setuid programs gain nothing"))
}

// makeDevice tries to create a node for the memory device, without opening it.
func makeDevice() result {
	dir, err := os.MkdirTemp(os.TempDir(), "node-")
	if err != nil {
		return untried(err.Error())
	}
	defer func() { _ = os.RemoveAll(dir) }()
	return unless(unix.Mknod(filepath.Join(dir, "mem"), unix.S_IFCHR|0o600, int(unix.Mkdev(1, 1))), "device nodes can be made")
}

// coreDump tries to set the limit of core dumps to 0, which the kernel ignores if core_pattern is a
// pipe or a socket (core(5)).
func coreDump() result {
	pattern, err := os.ReadFile("/proc/sys/kernel/core_pattern")
	if err != nil {
		return untried(err.Error())
	}
	_ = unix.Setrlimit(unix.RLIMIT_CORE, &unix.Rlimit{})
	var limit unix.Rlimit
	switch err := unix.Getrlimit(unix.RLIMIT_CORE, &limit); {
	case err != nil:
		return untried(err.Error())
	case limit.Cur > 1:
		return out("cores of up to %d bytes are written where core_pattern says", limit.Cur)
	case limit.Cur == 0 && bytes.ContainsAny(pattern[:min(1, len(pattern))], "|@"):
		return out("a crash starts the program of the machine that takes core dumps")
	}
	return result{Refused, fmt.Sprintf("with a limit of %d, a crash starts no program", limit.Cur)}
}
