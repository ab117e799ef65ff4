package guest

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/waza-isolate/waza/sandbox/observe"
)

// Limits for reading a program's memory.
const (
	maxPathBytes = 4096
	maxSockaddr  = 128 // size of struct sockaddr_storage
	maxArgBytes  = 512
	maxArgs      = 16
	maxMessages  = 16 // per sendmmsg
)

// hidden is recorded if a program's memory is not readable.
const hidden = "hidden by its program"

// notifIDValid checks whether the program of a notification is still waiting; otherwise its pid
// may have been reused. Of the two values of this ioctl, this is the one that all kernels
// support.
const notifIDValid = 0x80082102

// record records a call in the ledger. The program may change the memory that a call points to
// before the kernel reads it; the record can then be wrong.
func (w *watcher) record(n notification) {
	call, pointer := find(w.abis, n.arch, n.number)
	m := openMemory(n.pid, pointer)
	defer m.close()
	if id := n.id; control(w.reported, notifIDValid, unsafe.Pointer(&id)) != nil {
		return
	}
	switch call {
	case callConnect:
		w.connection("", m, n.args[1], n.args[2])
	case callSendTo:
		w.connection("udp", m, n.args[4], n.args[5])
	case callSendMsg:
		w.message(m, n.args[1])
	case callSendMMsg:
		w.messages(m, n.args[1], uint32(n.args[2]))
	case callExec:
		w.program(n, m, m.text(n.args[0], maxPathBytes), unix.AT_FDCWD, n.args[1])
	case callExecAt:
		w.program(n, m, m.text(n.args[1], maxPathBytes), int32(n.args[0]), n.args[2])
	}
}

// connection records a connection to an address. kind is the protocol, if the call determines
// it.
func (w *watcher) connection(kind string, m memory, at, size uint64) {
	if at == 0 {
		return
	}
	raw, ok := m.bytes(at, min(size, maxSockaddr))
	if !ok {
		w.ledger.Connection(observe.Unknown, hidden)
		return
	}
	family, address := observe.Address(raw)
	switch {
	case family == "":
		return
	case family == "ip" && kind != "":
		family = kind
	}
	w.ledger.Connection(family, address)
}

// messages records the destinations of the first messages of one sendmmsg. If there are more,
// it records a gap.
func (w *watcher) messages(m memory, at uint64, count uint32) {
	for i := range min(count, maxMessages) {
		w.message(m, at+uint64(i)*m.multiHeader())
	}
	if count > maxMessages {
		w.ledger.Lack(observe.Connections, fmt.Sprintf("%d datagrams were sent at once, of which %d were looked at", count, maxMessages))
	}
}

// message records the destination of a struct msghdr, if it has one.
func (w *watcher) message(m memory, at uint64) {
	header, ok := m.bytes(at, uint64(2*m.word))
	switch {
	case !ok:
		w.ledger.Connection(observe.Unknown, hidden)
	case len(header) == 2*m.word:
		w.connection("udp", m, m.pointer(header), uint64(binary.NativeEndian.Uint32(header[m.word:])))
	}
}

// program records the start of a program. If the file does not exist, it is only counted as
// missing, since programs are often tried in each directory of PATH.
func (w *watcher) program(n notification, m memory, name string, dir int32, argv uint64) {
	if own, ours := w.takeStart(int(n.pid)); ours {
		w.started(place{path: own.path}, func() []string { return own.args })
		return
	}
	if m.fd < 0 {
		w.ledger.Program(hidden, func() []string { return nil })
		return
	}
	w.started(placeOf(n.pid, dir, name), func() []string { return m.list(argv) })
}

func (w *watcher) started(at place, args func() []string) {
	if _, err := os.Stat(at.own()); errors.Is(err, os.ErrNotExist) {
		w.ledger.Missing()
		return
	}
	w.ledger.Program(at.called(), args)
}

// place is a path named by a program, as seen by process 1.
type place struct {
	link string // a link in /proc that the path is relative to; empty for the root
	path string // empty for the target of link
}

// placeOf resolves a name relative to a program's working directory, to one of its open
// directories, or to its own links in /proc.
func placeOf(pid uint32, dir int32, name string) place {
	own := fmt.Sprintf("/proc/%d/", pid)
	for _, self := range []string{"/proc/self/", "/proc/thread-self/"} {
		rest, ok := strings.CutPrefix(name, self)
		if !ok {
			continue
		}
		link, path, _ := strings.Cut(rest, "/")
		if link == "fd" {
			number, inner, _ := strings.Cut(path, "/")
			return place{own + "fd/" + number, inner}
		}
		return place{own + link, path}
	}
	switch {
	case filepath.IsAbs(name):
		return place{path: name}
	case dir == unix.AT_FDCWD:
		return place{own + "cwd", name}
	}
	return place{fmt.Sprintf("%sfd/%d", own, dir), name}
}

// own returns the path through link, which also works for unlinked files.
func (p place) own() string {
	if p.link == "" || p.path == "" {
		return p.link + p.path
	}
	return p.link + "/" + p.path
}

// called returns the resolved path.
func (p place) called() string {
	if p.link == "" {
		return filepath.Clean(p.path)
	}
	at, err := os.Readlink(p.link)
	if err != nil {
		return p.own()
	}
	return filepath.Join(at, p.path)
}

// inDirectory returns a path relative to dir; an empty dir is our own.
func inDirectory(dir, name string) string {
	if filepath.IsAbs(name) {
		return name
	}
	return filepath.Join(dir, name)
}

// memory is a program's memory; fd is negative if it is not readable.
type memory struct {
	fd   int
	word int // size of a pointer in bytes
}

func openMemory(pid uint32, word int) memory {
	fd, err := unix.Open("/proc/"+strconv.FormatUint(uint64(pid), 10)+"/mem", unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		fd = -1
	}
	return memory{fd, word}
}

func (m memory) close() {
	if m.fd >= 0 {
		_ = unix.Close(m.fd)
	}
}

// bytes reads memory. It returns fewer bytes if the mapping ends.
func (m memory) bytes(at, size uint64) ([]byte, bool) {
	if m.fd < 0 || at >= 1<<63 {
		return nil, m.fd >= 0
	}
	p := make([]byte, size)
	n, _ := unix.Pread(m.fd, p, int64(at))
	return p[:max(n, 0)], true
}

// text reads a C string.
func (m memory) text(at, most uint64) string {
	raw, _ := m.bytes(at, most)
	s, _, _ := strings.Cut(string(raw), "\x00")
	return s
}

// list reads a list of C strings.
func (m memory) list(at uint64) (all []string) {
	raw, _ := m.bytes(at, uint64(maxArgs*m.word))
	for ; len(raw) >= m.word; raw = raw[m.word:] {
		next := m.pointer(raw)
		if next == 0 {
			break
		}
		all = append(all, m.text(next, maxArgBytes))
	}
	return all
}

func (m memory) pointer(raw []byte) uint64 {
	if m.word == 4 {
		return uint64(binary.NativeEndian.Uint32(raw))
	}
	return binary.NativeEndian.Uint64(raw)
}

// multiHeader returns the size of struct mmsghdr: a struct msghdr of seven words, and a count.
func (m memory) multiHeader() uint64 { return uint64(8 * m.word) }
