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

// How much of a program's memory is looked at.
const (
	maxPathBytes = 4096
	maxSockaddr  = 128 // struct sockaddr_storage
	maxArgBytes  = 512
	maxArgs      = 16
	maxMessages  = 16 // of one sendmmsg
)

// hidden stands for what a program has in memory that it lets nobody read.
const hidden = "hidden by its program"

// notifIDValid asks whether the program of a notification still waits: its number may be
// another's otherwise. Of its two numbers this is the one that all kernels know.
const notifIDValid = 0x80082102

// see adds a call to the ledger. What it points to is the program's, who may change it
// before the kernel reads it; to be told wrong is the program's doing then.
func (w *watcher) see(n notification) {
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

// connection counts an address; kind is what carries what goes there, where the call
// tells.
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

// messages counts where the first of so many messages go that one call sends, and says
// where there are more.
func (w *watcher) messages(m memory, at uint64, count uint32) {
	for i := range min(count, maxMessages) {
		w.message(m, at+uint64(i)*m.multiHeader())
	}
	if count > maxMessages {
		w.ledger.Lack(observe.Connections, fmt.Sprintf("%d datagrams were sent at once, of which %d were looked at", count, maxMessages))
	}
}

// message counts where a struct msghdr goes that names that.
func (w *watcher) message(m memory, at uint64) {
	header, ok := m.bytes(at, uint64(2*m.word))
	switch {
	case !ok:
		w.ledger.Connection(observe.Unknown, hidden)
	case len(header) == 2*m.word:
		w.connection("udp", m, m.pointer(header), uint64(binary.NativeEndian.Uint32(header[m.word:])))
	}
}

// program counts a start. One that is not there is looked for, such as in the
// directories of PATH, one after the other.
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

// place is what a program names, as process 1 finds it.
type place struct {
	link string // of /proc, to where the path is from; empty for the root
	path string // empty for what the link leads to
}

// placeOf takes a name of a program's, from where that stands, from what it has open, or
// by its own links in /proc.
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

// own is the place through its link, which leads there also where that has no name any
// more.
func (p place) own() string {
	if p.link == "" || p.path == "" {
		return p.link + p.path
	}
	return p.link + "/" + p.path
}

// called is the place by its name.
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

// inDirectory is a path as it is from a directory; empty is our own.
func inDirectory(dir, name string) string {
	if filepath.IsAbs(name) {
		return name
	}
	return filepath.Join(dir, name)
}

// memory is a program's; fd is negative where nobody may read it.
type memory struct {
	fd   int
	word int // bytes of a pointer
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

// bytes reads what is there, which is less where memory ends.
func (m memory) bytes(at, size uint64) ([]byte, bool) {
	if m.fd < 0 || at >= 1<<63 {
		return nil, m.fd >= 0
	}
	p := make([]byte, size)
	n, _ := unix.Pread(m.fd, p, int64(at))
	return p[:max(n, 0)], true
}

// text reads a string of C's.
func (m memory) text(at, most uint64) string {
	raw, _ := m.bytes(at, most)
	s, _, _ := strings.Cut(string(raw), "\x00")
	return s
}

// list reads a list of strings of C's.
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

// multiHeader is the size of struct mmsghdr: a struct msghdr of seven words, and a count.
func (m memory) multiHeader() uint64 { return uint64(8 * m.word) }
