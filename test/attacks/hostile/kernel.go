package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"strconv"
	"strings"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/waza-isolate/waza/test/attacks/part"
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
		{"socket-memory", socketMemory},
		{"special-pages", func() error {
			const huge, size = 0o4000, 2 << 20
			return firstGranted(
				func() error { return call3(unix.SYS_MEMFD_SECRET, 0, 0, 0) },
				func() error {
					_, err := unix.Mmap(-1, 0, size, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS|unix.MAP_HUGETLB)
					return unlessOnly(err, unix.ENOMEM) // the machine has none
				},
				func() error {
					fd, err := unix.MemfdCreate("huge", unix.MFD_HUGETLB)
					return closed(uintptr(fd), err)
				},
				func() error {
					_, err := unix.SysvShmGet(unix.IPC_PRIVATE, size, huge|0o600)
					return unlessOnly(err, unix.ENOMEM)
				},
			)
		}},
		{"core-limit", func() error {
			var is unix.Rlimit
			err := errors.Join(unix.Setrlimit(unix.RLIMIT_CORE, &unix.Rlimit{}), unix.Prlimit(0, unix.RLIMIT_CORE, &unix.Rlimit{}, nil))
			if err := errors.Join(err, unix.Getrlimit(unix.RLIMIT_CORE, &is)); err != nil {
				return err
			}
			if is.Cur != 0 {
				return fmt.Errorf("the limit is still %d", is.Cur)
			}
			return nil
		}},
		{"host-names", hostNames},
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

// call3 makes a system call.
func call3(number, a, b, c uintptr) error {
	if _, _, errno := unix.Syscall(number, a, b, c); errno != 0 {
		return errno
	}
	return nil
}

// socketMemory sets the options of sockets for which the kernel allocates memory.
func socketMemory() error {
	option := func(family, level, name int, value []byte) func() error {
		return func() error {
			fd, err := unix.Socket(family, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
			if err != nil {
				return err
			}
			defer func() { _ = unix.Close(fd) }()
			return unix.SetsockoptString(fd, level, name, string(value))
		}
	}
	key := make([]byte, 216) // struct tcp_md5sig: an address, flags, and a key of one byte
	key[0], key[130], key[136] = unix.AF_INET, 1, 1
	key[4] = 127
	label := make([]byte, 32) // struct in6_flowlabel_req: an address, and a request to create a label
	label[15], label[21], label[22] = 1, 1, 1
	program := unix.SockFprog{Len: 1, Filter: &unix.SockFilter{Code: unix.BPF_RET | unix.BPF_K, K: 1}}
	filter := unsafe.Slice((*byte)(unsafe.Pointer(&program)), unsafe.Sizeof(program))
	const flowLabels, authKey = 32, 38
	return firstGranted(
		option(unix.AF_INET, unix.IPPROTO_TCP, unix.TCP_MD5SIG, key),
		option(unix.AF_INET6, unix.IPPROTO_IPV6, flowLabels, label),
		option(unix.AF_INET, unix.SOL_SOCKET, unix.SO_ATTACH_FILTER, filter),
		option(unix.AF_INET, unix.SOL_SOCKET, unix.SO_ATTACH_REUSEPORT_CBPF, filter),
		option(unix.AF_INET, unix.IPPROTO_TCP, unix.TCP_ULP, []byte("tls")),
		option(unix.AF_INET, unix.IPPROTO_TCP, authKey, make([]byte, 256)),
	)
}

// hostNames reads names of the host from files that show them.
func hostNames() error {
	shown := func(file string, names func(content string) bool) func() error {
		return func() error {
			content, err := os.ReadFile(file)
			if err != nil {
				return err
			}
			if !names(string(content)) {
				return errors.New(file + " shows no name")
			}
			return nil
		}
	}
	anything := func(content string) bool { return strings.TrimSpace(content) != "" }
	ours := regexp.MustCompile(`waza-mux-\S*/mux|waza-\d{8}-`) // the runner's socket, a run
	tries := []func() error{
		shown("/proc/cmdline", anything), shown("/proc/partitions", anything), shown("/proc/diskstats", anything), shown("/proc/key-users", anything),
		shown("/proc/self/cgroup", func(content string) bool {
			for line := range strings.Lines(content) {
				if !strings.HasSuffix(line, ":/\n") {
					return true
				}
			}
			return false
		}),
		shown("/proc/net/unix", ours.MatchString), shown("/proc/self/mountinfo", ours.MatchString),
		func() error {
			if disks := matches("/sys/block/*", "/sys/class/block/*", "/sys/devices/virtual/block/*", "/sys/devices/virtual/dmi/*"); len(disks) == 0 {
				return errors.New("no disk is shown")
			}
			return nil
		},
	}
	return firstGranted(tries...)
}
