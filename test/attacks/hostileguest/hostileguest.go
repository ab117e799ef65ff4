// Package hostileguest is a hostile process 1, as if a program in the container had taken
// over the guest. An executable that imports it is hostile as a guest, and unchanged
// otherwise. No released executable does; the tests of package attacks build one with an
// additional file.
//
// It relays the messages between the runner and the real guest, and inserts its own frames.
// The last argument of a program that the runner starts is the name of the attack.
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

	"github.com/waza-isolate/waza/test/attacks/part"
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

// middle relays between the runner and the guest, on the pipe or on the runner's sockets.
type middle struct {
	also *middle // the middle of the pipe, if this is the one of the sockets

	mu       sync.Mutex
	programs int             // number of programs started by the runner; guarded by mu
	lies     bool            // falsify trees; guarded by mu
	out      io.Writer       // to the runner; guarded by mu
	trees    map[uint32]bool // streams of the mux whose trees will be falsified; guarded by mu
}

// begin replaces stdin and stdout by pipes, which the guest uses from then on.
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

// between relays frames in both directions until the runner ends.
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

// own duplicates a file descriptor.
func own(fd uintptr) (*os.File, error) {
	own, err := unix.FcntlInt(fd, unix.F_DUPFD_CLOEXEC, 3)
	return os.NewFile(uintptr(own), "runner"), err
}

// frame is a frame of the mux: version, type, flags, stream and length, followed by the
// data if there is any.
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

// Header sizes and kinds of messages in streams: kind, length and content.
const (
	messageHeader = 5

	kindRequest = 1
	kindData    = 4
)

// begins reports whether the data of the frame starts with a message of the kind.
func (f frame) begins(kind byte) bool {
	return f[1] == frameData && len(f) > frameHeader+messageHeader && f[frameHeader] == kind
}

// pass relays complete frames.
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

// hear inspects a request of the runner, and reports whether it is for a tree to falsify.
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
		if m.programs++; m.programs == 2 { // the first is for the inspection of a server before the trial
			go m.flood(attack)
			if m.also != nil {
				go m.also.flood(attack)
			}
		}
	}
	return request.Verb == "get" && m.lies
}

// say relays a frame of the guest, after inserting additional files at the start of a tree.
// The tree must be smaller than the window of its stream, since the guest does not know
// about them.
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
