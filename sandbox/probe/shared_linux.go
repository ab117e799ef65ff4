package probe

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// A resource that two containers share leaks information. So every attacker and listener marks
// resources that may be shared while it runs, and attackers look for the marks of others.

func sharedAttempts() []attempt {
	return []attempt{plain("shared-file", sharedFile), plain("shared-user", sharedUser), plain("memory-tcp", memoryTCP)}
}

// commonFiles returns files that containers may share.
func commonFiles() []string {
	return []string{"/opt/waza/waza", "/etc/waza/mcp.json", "/etc/passwd", "/etc/group", "/etc/hosts", "/etc/resolv.conf", "/etc/hostname"}
}

const (
	// markStart and markLen are the locked range of a file, beyond its end.
	markStart = 1 << 40
	markLen   = 1 << 10
	// markTimers is the number of timers per mark. Few programs have any.
	markTimers = 64
)

// mark locks the common files and creates timers, which the kernel accounts by user. It returns
// the locked files.
var mark = sync.OnceValue(func() map[string]*os.File {
	marked := map[string]*os.File{}
	for _, name := range commonFiles() {
		f, err := os.Open(name)
		if err != nil {
			continue
		}
		lock := unix.Flock_t{Type: unix.F_RDLCK, Start: markStart, Len: markLen}
		if err := unix.FcntlFlock(f.Fd(), unix.F_OFD_SETLK, &lock); err != nil {
			_ = f.Close()
			continue
		}
		marked[name] = f
	}
	for range markTimers {
		_ = MakeTimer() // without timers, nothing is detected
	}
	return marked
})

// MakeTimer creates a timer that is never armed and exists until the process ends.
func MakeTimer() error {
	event := struct {
		value          uint64
		signal, notify int32
		_              [48]byte
	}{notify: 1} // SIGEV_NONE
	var id int32
	if _, _, errno := unix.Syscall(unix.SYS_TIMER_CREATE, unix.CLOCK_MONOTONIC, uintptr(unsafe.Pointer(&event)), uintptr(unsafe.Pointer(&id))); errno != 0 {
		return errno
	}
	return nil
}

func sharedFile() result {
	marked := mark()
	if len(marked) == 0 {
		return untried("no file can be locked")
	}
	for name, f := range marked {
		// our own lock is on the same open file and does not conflict
		lock := unix.Flock_t{Type: unix.F_WRLCK, Start: markStart, Len: markLen}
		if err := unix.FcntlFlock(f.Fd(), unix.F_OFD_GETLK, &lock); err == nil && lock.Type != unix.F_UNLCK {
			return out("a lock of another container on %s can be seen", name)
		}
	}
	return result{Refused, "of the locks of others none is to be seen"}
}

func sharedUser() result {
	mark()
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return untried(err.Error())
	}
	_, line, _ := strings.Cut(string(status), "\nSigQ:")
	used, _, _ := strings.Cut(line, "/")
	n, err := strconv.Atoi(strings.TrimSpace(used))
	switch {
	case err != nil || n < markTimers:
		return untried("the kernel does not say what it counts of a user")
	case n >= 2*markTimers:
		return out("of what the kernel counts by user, %d are another container's", n-markTimers)
	}
	return result{Refused, "the kernel counts what is its own, and no more"}
}

const (
	// bufferConns is how many connections are filled. bufferMost is how many bytes of data each
	// may buffer per direction: the window and the send buffer that waza allows, and what the
	// kernel adds.
	bufferConns = 8
	bufferMost  = 128 << 10
)

// memoryTCP fills connections to itself, whose buffers may not be accounted to the container.
func memoryTCP() result {
	ln, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		return untried(err.Error())
	}
	defer func() { _ = ln.Close() }()
	if raw, err := ln.(*net.TCPListener).SyscallConn(); err == nil {
		_ = raw.Control(wantBuffers)
	}
	held, before := 0, memoryUsed()
	for range bufferConns {
		n, done, err := fillOne(ln)
		if err != nil {
			return untried(err.Error())
		}
		defer done()
		held += n
	}
	after := memoryUsed()
	summary := fmt.Sprintf("%d connections hold %d KiB", bufferConns, held>>10)
	switch {
	case held <= bufferConns*bufferMost:
		return result{Refused, "what connections hold is small"}
	case before < 0:
		return untried(summary + ", and the container does not see what it uses")
	case after-before > held/2:
		return result{Refused, summary + ", which count as its container's memory"}
	}
	return out("%s beside the memory of its container", summary)
}

// FillConnections fills as many connections to itself as it can, up to a thousand.
func FillConnections() {
	ln, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		return
	}
	for range 1000 {
		if _, _, err := fillOne(ln); err != nil {
			return
		}
	}
}

// fillOne connects to ln, fills the connection, and returns how many bytes it holds and a function
// that closes it.
func fillOne(ln net.Listener) (held int, done func(), err error) {
	conn, err := net.DialTimeout("tcp4", ln.Addr().String(), patience)
	if err != nil {
		return 0, nil, err
	}
	other, err := ln.Accept()
	if err != nil {
		_ = conn.Close()
		return 0, nil, err
	}
	return fill(conn.(*net.TCPConn)), func() { _, _ = conn.Close(), other.Close() }, nil
}

// wantBuffers requests large buffers.
func wantBuffers(fd uintptr) {
	for _, option := range []int{unix.SO_RCVBUF, unix.SO_SNDBUF} {
		_ = unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, option, 4<<20)
	}
}

// fill writes until the buffers are full, and returns how many bytes they hold.
func fill(conn *net.TCPConn) (held int) {
	raw, err := conn.SyscallConn()
	if err != nil {
		return 0
	}
	_ = raw.Control(wantBuffers)
	chunk := make([]byte, 64<<10)
	for full := 0; full < 3 && held < 16<<20; {
		err := raw.Control(func(fd uintptr) {
			n, err := unix.Write(int(fd), chunk)
			held += max(n, 0)
			if errors.Is(err, syscall.EAGAIN) {
				full++
				time.Sleep(2 * time.Millisecond) // the other side receives some
			} else if err != nil {
				full = 3
			}
		})
		if err != nil {
			return held
		}
	}
	return held
}

// memoryUsed returns the container's memory usage in bytes, or -1 if not known.
func memoryUsed() int {
	for _, name := range []string{"/sys/fs/cgroup/memory/memory.usage_in_bytes", "/sys/fs/cgroup/memory.current"} {
		if text, err := os.ReadFile(name); err == nil {
			if n, err := strconv.Atoi(strings.TrimSpace(string(text))); err == nil {
				return n
			}
		}
	}
	return -1
}

// shared marks shared resources, reports that, and looks for the marks of others once it reads a
// line. It ends with its stdin.
func shared(stdin io.Reader, stdout io.Writer) error {
	mark()
	out, in := json.NewEncoder(stdout), bufio.NewReader(stdin)
	if err := out.Encode(Finding{Attack: Control, State: Sent}); err != nil {
		return err
	}
	if _, err := in.ReadString('\n'); err != nil {
		return err
	}
	for _, at := range sharedAttempts() {
		if err := out.Encode(carryOut(at, Aims{})); err != nil {
			return err
		}
	}
	_, err := io.Copy(io.Discard, in)
	return err
}
