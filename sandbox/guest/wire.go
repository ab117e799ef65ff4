package guest

import (
	"bufio"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"sync"
	"time"

	"github.com/waza-isolate/waza/sandbox/observe"
	"github.com/waza-isolate/waza/sandbox/process"
)

// NestedSandboxes is the argument with which a guest lets programs add seccomp filters.
const NestedSandboxes = "nested-sandboxes"

// RemoveInterfaces is the argument with which the guest's executable removes every network
// interface except loopback and exits.
const RemoveInterfaces = "remove-interfaces"

// MakeDirectories is the argument with which the guest's executable creates a private directory
// [OwnDirectory] in each of the following directories and exits.
const (
	MakeDirectories = "make-directories"
	OwnDirectory    = "own"
)

// kind is the type of a message on a stream. yamux has no reset, and its Close is a half-close
// with a timer, so ends are messages.
type kind byte

const (
	kindRequest kind = iota + 1 // JSON request; the first message of every stream
	kindReply                   // JSON reply: the request is in progress, or done
	kindError                   // text: the request failed; the last message
	kindData                    // data of a connection, stdin, stdout or a tar
	kindStderr                  // data of stderr
	kindEOF                     // end of kindData
	kindStderrEOF
	kindExit // JSON process.Exit; the last message of an exec
)

const (
	headerSize = 5
	maxPayload = 64 << 10
	maxRequest = 1 << 20 // for arguments and environment of a program
	readAhead  = 4 << 10 // a short message is read with one call
)

// ErrProtocol means that the other end violated the protocol. Its session is ended.
var ErrProtocol = errors.New("guest protocol violated")

// Refused is why the other end did not carry out a request. It is not trusted.
type Refused string

func (r Refused) Error() string { return string(r) }

type request struct {
	Verb   string                  `json:"verb"`
	Args   []string                `json:"args,omitempty"`
	Env    []string                `json:"env,omitempty"`
	Dir    string                  `json:"dir,omitempty"`
	First  string                  `json:"path_first,omitempty"`
	Sole   bool                    `json:"sole,omitempty"`
	Watch  bool                    `json:"watch,omitempty"`
	PID    int                     `json:"pid,omitempty"`
	Signal process.Signal          `json:"signal,omitempty"`
	Addr   string                  `json:"addr,omitempty"`
	Accept uint64                  `json:"accept,omitempty"`
	Omit   []string                `json:"omit,omitempty"`
	Names  map[string][]netip.Addr `json:"names,omitempty"`
	Dirs   []string                `json:"dirs,omitempty"`
}

// Hello is a guest's description of itself and its container before anything else runs there.
type Hello struct {
	UID              int    `json:"uid"`
	Capabilities     uint64 `json:"capabilities"` // bounding set
	NoNewPrivileges  bool   `json:"no_new_privileges"`
	Filtered         bool   `json:"filtered"` // by seccomp
	ReadOnlyRoot     bool   `json:"read_only_root"`
	UserNamespace    bool   `json:"user_namespace"`    // its users are others on its machine
	Datagrams        bool   `json:"datagrams"`         // UDP sockets can be opened
	ChoosesInterface bool   `json:"chooses_interface"` // sockets can select their interface
	Interfaces       int    `json:"interfaces"`        // including loopback
	Socket           bool   `json:"socket,omitempty"`  // the guest has connected to the runner's socket
}

type reply struct {
	Hello *Hello         `json:"hello,omitempty"`
	Addr  string         `json:"addr,omitempty"`
	PID   int            `json:"pid,omitempty"`
	Usage *observe.Usage `json:"usage,omitempty"`
}

// link sends and receives messages on one stream. Both are resumable: a read that fails because
// of a deadline loses nothing, and the rest of a message after a failed write is sent before
// the next. One goroutine may read while others write.
type link struct {
	stream stream
	// breached is called when the other end violates the protocol; may be nil.
	breached func(error)

	in     *bufio.Reader // used only by the reader
	header [headerSize]byte
	have   int
	left   int // unread payload bytes of the current message

	writeMu sync.Mutex
	buf     []byte // one message; guarded by writeMu
	unsent  []byte // unsent part of buf; guarded by writeMu
}

func newLink(s stream) *link { return &link{stream: s, in: bufio.NewReaderSize(s, readAhead)} }

// breach reports a protocol violation, and returns err.
func (l *link) breach(err error) error {
	if l.breached != nil {
		l.breached(err)
	}
	return err
}

// next skips the rest of the current message and reads the header of the next.
func (l *link) next() (kind, error) {
	for l.left > 0 {
		n, err := l.in.Discard(l.left)
		l.left -= n
		if err != nil {
			return 0, err
		}
	}
	for l.have < headerSize {
		n, err := l.in.Read(l.header[l.have:])
		l.have += n
		if err != nil {
			return 0, err
		}
	}
	size, k := binary.BigEndian.Uint32(l.header[1:]), kind(l.header[0])
	if size > maxPayload && (k != kindRequest || size > maxRequest) {
		return 0, l.breach(fmt.Errorf("%w: message of %d bytes", ErrProtocol, size))
	}
	l.have, l.left = 0, int(size)
	return k, nil
}

// readSome reads a part of the current message's payload.
func (l *link) readSome(p []byte) (int, error) {
	n, err := l.in.Read(p[:min(len(p), l.left)])
	l.left -= n
	return n, err
}

// payload reads the whole payload of the current message.
func (l *link) payload() ([]byte, error) {
	p := make([]byte, l.left)
	n, err := io.ReadFull(l.in, p)
	l.left -= n
	return p, err
}

// message reads the next message.
func (l *link) message() (kind, []byte, error) {
	k, err := l.next()
	if err != nil {
		return 0, nil, err
	}
	p, err := l.payload()
	return k, p, err
}

// write sends p in one message, or in several if it is too long for one.
func (l *link) write(k kind, p []byte) error {
	l.writeMu.Lock()
	defer l.writeMu.Unlock()
	_, err := l.writeLocked(k, p)
	return err
}

// writeLocked returns how many bytes of p were accepted, including those of a message that was
// not completely sent.
func (l *link) writeLocked(k kind, p []byte) (int, error) {
	taken, limit := 0, maxPayload
	if k == kindRequest {
		limit = maxRequest
	}
	for first := true; first || taken < len(p); first = false {
		if err := l.flushLocked(); err != nil {
			return taken, err
		}
		part := p[taken:min(taken+limit, len(p))]
		taken += len(part)
		l.buf = binary.BigEndian.AppendUint32(append(l.buf[:0], byte(k)), uint32(len(part)))
		l.buf = append(l.buf, part...)
		l.unsent = l.buf
	}
	return taken, l.flushLocked()
}

func (l *link) flushLocked() error {
	if len(l.unsent) == 0 {
		return nil
	}
	n, err := l.stream.Write(l.unsent)
	l.unsent = l.unsent[n:]
	return err
}

// fail ends a request with an error.
func (l *link) fail(reason error) error {
	text := []byte(reason.Error())
	return l.write(kindError, text[:min(len(text), maxPayload)])
}

// stopWriting unblocks writes to a peer that does not read any more.
func (l *link) stopWriting() { _ = l.stream.SetWriteDeadline(time.Now()) }

// drain reads until the end of the stream. If an end closes a stream before the other has read
// everything, the rest may be lost, because yamux does not wait long.
func (l *link) drain() {
	for {
		if _, err := l.next(); err != nil {
			return
		}
	}
}

func (l *link) writeJSON(k kind, v any) error {
	p, err := json.Marshal(v)
	if err != nil {
		return err
	}
	if len(p) > maxRequest {
		return fmt.Errorf("request of %d bytes is over %d", len(p), maxRequest)
	}
	return l.write(k, p)
}

// reply reads the response to a request.
func (l *link) reply() (reply, error) {
	k, p, err := l.message()
	if err != nil {
		return reply{}, err
	}
	var r reply
	switch k {
	case kindReply:
		if err := json.Unmarshal(p, &r); err != nil {
			return r, l.breach(fmt.Errorf("%w: %w", ErrProtocol, err))
		}
		return r, nil
	case kindError:
		return r, Refused(p)
	default:
		return r, l.breach(fmt.Errorf("%w: message kind %d for a reply", ErrProtocol, k))
	}
}

// dataWriter writes data as messages of one kind. Close sends the corresponding end.
type dataWriter struct {
	link      *link
	data, eof kind
	closed    bool // guarded by link.writeMu
}

func (w *dataWriter) Write(p []byte) (int, error) {
	w.link.writeMu.Lock()
	defer w.link.writeMu.Unlock()
	if w.closed {
		return 0, io.ErrClosedPipe
	}
	return w.link.writeLocked(w.data, p)
}

func (w *dataWriter) Close() error {
	w.link.writeMu.Lock()
	defer w.link.writeMu.Unlock()
	if w.closed {
		return nil
	}
	w.closed = true
	_, err := w.link.writeLocked(w.eof, nil)
	return err
}

func parseExit(p []byte) (process.Exit, error) {
	var exit process.Exit
	if err := json.Unmarshal(p, &exit); err != nil {
		return exit, fmt.Errorf("%w: exit: %w", ErrProtocol, err)
	}
	return exit, nil
}
