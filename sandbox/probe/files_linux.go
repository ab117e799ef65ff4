package probe

import (
	"bytes"
	"context"
	"errors"
	"io"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

func fileAttempts() []attempt {
	write := func(name string, paths ...string) attempt {
		return attempt{name, func(context.Context, Aims) result { return opened(paths) }}
	}
	return []attempt{
		write("proc-sys", "/proc/sys/kernel/core_pattern", "/proc/sys/kernel/modprobe", "/proc/sys/net/ipv4/ip_forward",
			"/proc/sys/vm/overcommit_memory", "/proc/sys/kernel/hostname"),
		{"sysrq", func(context.Context, Aims) result {
			r := opened([]string{"/proc/sysrq-trigger"})
			if _, err := os.Stat("/proc/sysrq-trigger"); errors.Is(err, fs.ErrNotExist) {
				return untried("this kernel has none")
			}
			return r
		}},
		{"sysfs", sysfs},
		{"root-files", rootFiles},
		{"host-devices", hostDevices},
		{"engine-socket", engineSocket},
		{"processes", processes},
		{"planted-secret", planted},
	}
}

// opened tries to open paths for writing. Nothing is written.
func opened(paths []string) result {
	return anyOf(paths, "%s can be opened", func(path string) error {
		f, err := os.OpenFile(path, os.O_WRONLY, 0)
		if err == nil {
			_ = f.Close()
		}
		return err
	})
}

// sysfs tries to open control groups and kernel settings for writing.
func sysfs(context.Context, Aims) result {
	paths := []string{
		"/sys/fs/cgroup/cgroup.procs", "/sys/fs/cgroup/memory.max", "/sys/kernel/uevent_helper", "/sys/kernel/mm/ksm/run", "/sys/power/state",
		"/sys/module/printk/parameters/time",
	}
	for _, name := range []string{"cgroup.procs", "release_agent", "memory.limit_in_bytes", "pids.max"} {
		found, _ := filepath.Glob("/sys/fs/cgroup/*/" + name)
		paths = append(paths, found...)
	}
	return opened(paths)
}

// rootFiles tries to create files next to those of the image, and to change waza's own.
func rootFiles(context.Context, Aims) result {
	made := anyOf([]string{"/", "/etc", "/opt/waza", "/etc/waza"}, "files can be made in %s", func(dir string) error {
		f, err := os.CreateTemp(dir, "probe-")
		if err == nil {
			_ = errors.Join(f.Close(), os.Remove(f.Name()))
		}
		return err
	})
	changed := opened([]string{"/opt/waza/waza", "/etc/waza/mcp.json", "/etc/hosts", "/etc/resolv.conf", "/etc/passwd"})
	switch {
	case made.state == Out:
		return made
	case changed.state == Out:
		return changed
	}
	return result{Refused, made.detail + ", " + changed.detail}
}

// hostDevices tries to open every device that containers do not usually have.
func hostDevices(context.Context, Aims) result {
	usual := []string{"null", "zero", "full", "random", "urandom", "tty", "console", "ptmx", "0"}
	var errs []error
	var found string
	err := filepath.WalkDir("/dev", func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.Type()&fs.ModeDevice == 0 || slices.Contains(usual, entry.Name()) {
			return nil
		}
		fd, err := unix.Open(path, unix.O_RDONLY|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
		if err != nil {
			errs = append(errs, err)
			return nil
		}
		_ = unix.Close(fd)
		found = path
		return fs.SkipAll
	})
	switch {
	case found != "":
		return out("%s can be opened", found)
	case err != nil:
		return untried(err.Error())
	case len(errs) == 0:
		return refused(errors.New("there is none"))
	}
	return result{Refused, summary(errs)}
}

// engineSocket tries to connect to the sockets of container engines.
func engineSocket(context.Context, Aims) result {
	return anyOf([]string{
		"/var/run/docker.sock", "/run/docker.sock", "/run/containerd/containerd.sock", "/run/podman/podman.sock",
		"/run/crio/crio.sock", "/run/buildkit/buildkitd.sock", "@/containerd-shim",
	}, "%s takes connections", func(path string) error {
		conn, err := net.DialTimeout("unix", path, patience)
		if err == nil {
			_ = conn.Close()
		}
		return err
	})
}

// processes looks for processes of other containers.
func processes(_ context.Context, a Aims) result {
	mark := []byte(Reversed(a.Foreigners))
	lines, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	for _, file := range lines {
		if line, err := os.ReadFile(file); err == nil && bytes.Contains(line, mark) {
			return out("programs of other containers can be seen, as at %s", filepath.Dir(file))
		}
	}
	return result{Refused, "none of other containers among " + plural(len(lines), "process")}
}

const (
	maxFiles    = 20_000
	maxFileSize = 1 << 20
)

// planted looks for planted secrets in the environment of all processes and in all files, until
// the time limit.
func planted(ctx context.Context, a Aims) result {
	mark := []byte(Reversed(a.Planted))
	environs, _ := filepath.Glob("/proc/[0-9]*/environ")
	for _, file := range append(environs, "/proc/self/mountinfo") {
		if content, err := os.ReadFile(file); err == nil && bytes.Contains(content, mark) {
			return out("one is in %s", file)
		}
	}
	var found string
	looked := 0
	err := filepath.WalkDir("/", func(path string, entry fs.DirEntry, err error) error {
		switch {
		case ctx.Err() != nil || looked >= maxFiles:
			return fs.SkipAll
		case err != nil:
			return nil
		case path == "/proc" || path == "/sys":
			return fs.SkipDir
		case !entry.Type().IsRegular():
			return nil
		}
		looked++
		if contains(path, mark) {
			found = path
			return fs.SkipAll
		}
		return nil
	})
	switch {
	case found != "":
		return out("one is in %s", found)
	case err != nil:
		return untried(err.Error())
	}
	return result{Refused, "none in " + plural(len(environs), "process") + " and " + plural(looked, "file")}
}

// contains reports whether a file contains a mark. Large files, such as our executable, are
// skipped.
func contains(path string, mark []byte) bool {
	info, err := os.Stat(path)
	if err != nil || !info.Mode().IsRegular() || info.Size() > maxFileSize {
		return false
	}
	fd, err := unix.Open(path, unix.O_RDONLY|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if err != nil {
		return false
	}
	f := os.NewFile(uintptr(fd), path)
	defer func() { _ = f.Close() }()
	_ = f.SetReadDeadline(time.Now().Add(patience))
	content, _ := io.ReadAll(io.LimitReader(f, maxFileSize))
	return bytes.Contains(content, mark)
}

func plural(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	if strings.HasSuffix(what, "s") {
		what += "e"
	}
	return strconv.Itoa(n) + " " + what + "s"
}
