// Package hostileguest is a hostile process 1, as if a program in the container had taken
// the guest over. An executable that imports it is hostile where it is a guest, and as it
// was everywhere else. None that is shipped does: the tests of package attacks build one,
// with a file more.
//
// It stands between the runner and the real guest, passes on what they say to each other,
// and adds frames of its own. Which, the last argument of a program says that the runner
// has started: the name of an attack.
package hostileguest

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/waza-isolate/waza/attacks/part"
)

func init() {
	if len(os.Args) < 2 || os.Args[1] != "guest" || os.Getpid() != 1 {
		return
	}
	if err := begin(); err != nil {
		fmt.Fprintln(os.Stderr, "hostile guest:", err)
		os.Exit(1)
	}
}

// middle is between the runner and the guest, on the pipe or on the runner's sockets.
type middle struct {
	also *middle // the pipe's, of the one on sockets

	mu       sync.Mutex
	programs int             // that the runner has started; guarded by mu
	lies     bool            // about trees; guarded by mu
	out      io.Writer       // to the runner; guarded by mu
	trees    map[uint32]bool // streams of the mux with trees to lie about that are to come; guarded by mu
}

// begin puts pipes in the place of stdin and stdout, which the guest takes over next.
func begin() error {
	in, failed := own(0)
	out, failedToo := own(1)
	guestIn, toGuest, err := os.Pipe()
	if err := errors.Join(failed, failedToo, err); err != nil {
		return err
	}
	fromGuest, guestOut, err := os.Pipe()
	if err != nil {
		return err
	}
	m := newMiddle(out)
	go func() {
		m.between(in, toGuest, fromGuest)
		_ = toGuest.Close()
	}()
	if len(os.Args) > 2 {
		if err := m.takeSocket(); err != nil {
			return err
		}
	}
	return errors.Join(unix.Dup3(int(guestIn.Fd()), 0, 0), unix.Dup3(int(guestOut.Fd()), 1, 0), guestIn.Close(), guestOut.Close())
}

func newMiddle(runner io.Writer) *middle { return &middle{out: runner, trees: map[uint32]bool{}} }

// between passes frames on, both ways, until the runner ends.
func (m *middle) between(runner io.Reader, toGuest io.Writer, fromGuest io.Reader) {
	go pass(fromGuest, m.say)
	pass(runner, func(f frame) error {
		if f.begins(kindRequest) && m.hear(f[frameHeader:]) {
			m.mu.Lock()
			m.trees[f.stream()] = true
			m.mu.Unlock()
		}
		_, err := toGuest.Write(f)
		return err
	})
}

// own returns another descriptor of a file, that stays with us.
func own(fd uintptr) (*os.File, error) {
	own, err := unix.FcntlInt(fd, unix.F_DUPFD_CLOEXEC, 3)
	return os.NewFile(uintptr(own), "runner"), err
}

// frame is one of the mux: version, type, flags, stream and length, and then the data
// where it has any.
type frame []byte

const (
	frameHeader = 12

	frameData         = 0
	frameWindowUpdate = 1
	framePing         = 2

	flagSYN = 1
)

func newFrame(kind, flags byte, stream, length uint32) frame {
	f := frame{0, kind, 0, flags}
	return binary.BigEndian.AppendUint32(binary.BigEndian.AppendUint32(f, stream), length)
}

func (f frame) stream() uint32 { return binary.BigEndian.Uint32(f[4:]) }

// Messages that streams are made of: kind, length and content.
const (
	messageHeader = 5

	kindRequest = 1
	kindData    = 4
)

// begins reports whether the data of a frame begins with a message of a kind.
func (f frame) begins(kind byte) bool {
	return f[1] == frameData && len(f) > frameHeader+messageHeader && f[frameHeader] == kind
}

// pass hands on frames, whole.
func pass(from io.Reader, to func(frame) error) {
	for {
		f := make(frame, frameHeader)
		if _, err := io.ReadFull(from, f); err != nil {
			return
		}
		if f[1] == frameData {
			f = append(f, make([]byte, binary.BigEndian.Uint32(f[8:]))...)
		}
		if _, err := io.ReadFull(from, f[frameHeader:]); err != nil || to(f) != nil {
			return
		}
	}
}

// hear looks at a request of the runner's, and reports whether it is for a tree to lie about.
func (m *middle) hear(message []byte) bool {
	var request struct {
		Verb string
		Args []string
	}
	if json.Unmarshal(message[messageHeader:], &request) != nil {
		return false
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if request.Verb == "exec" {
		attack := request.Args[len(request.Args)-1]
		m.lies = m.lies || attack == part.LeadsOut
		if m.programs++; m.programs == 2 { // the first is for the look that the runner has at a server before the trial
			go m.flood(attack)
			if m.also != nil {
				go m.also.flood(attack)
			}
		}
	}
	return request.Verb == "get" && m.lies
}

// say passes on what the guest says, with a few files more at the beginning of a tree,
// which is to be smaller than the window of its stream: the guest knows nothing of them.
func (m *middle) say(f frame) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.trees[f.stream()] && f.begins(kindData) {
		delete(m.trees, f.stream())
		message := plantedMessage()
		if _, err := m.out.Write(append(newFrame(frameData, 0, f.stream(), uint32(len(message))), message...)); err != nil {
			return err
		}
	}
	_, err := m.out.Write(f)
	return err
}
