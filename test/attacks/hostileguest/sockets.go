package hostileguest

import (
	"encoding/binary"
	"errors"
	"io"
	"net"
	"os"

	"golang.org/x/sys/unix"
)

// takeSocket connects to the runner's socket instead of the guest, and gives the guest
// another one.
func (m *middle) takeSocket() error {
	runner, err := net.DialUnix("unix", nil, &net.UnixAddr{Net: "unix", Name: os.Args[2]})
	if err != nil {
		return err
	}
	os.Args[2] = "@hostile"
	ln, err := net.ListenUnix("unix", &net.UnixAddr{Net: "unix", Name: os.Args[2]})
	if err != nil {
		return err
	}
	go func() {
		real, err := ln.AcceptUnix()
		if err != nil {
			return
		}
		over := newMiddle(runner)
		over.also = m
		for over.handOn(runner, real) == nil {
		}
		_, _ = real.Close(), runner.Close()
	}()
	return nil
}

// handOn receives a socket from the runner, and passes another one to the guest.
func (m *middle) handOn(runner, guest *net.UnixConn) error {
	use, rights := make([]byte, 1), make([]byte, unix.CmsgSpace(4))
	_, n, _, _, err := runner.ReadMsgUnix(use, rights)
	if err != nil {
		return err
	}
	messages, err := unix.ParseSocketControlMessage(rights[:n])
	if err != nil || len(messages) != 1 {
		return errors.Join(err, io.ErrUnexpectedEOF)
	}
	fds, err := unix.ParseUnixRights(&messages[0])
	if err != nil {
		return err
	}
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	runnerEnd, failed := socketOf(fds[0])
	guestEnd, failedToo := socketOf(pair[0])
	_, _, err = guest.WriteMsgUnix(use, unix.UnixRights(pair[1]), nil)
	if err := errors.Join(failed, failedToo, err, unix.Close(pair[1])); err != nil {
		return err
	}
	go m.betweenSockets(runnerEnd, guestEnd)
	return nil
}

func socketOf(fd int) (*net.UnixConn, error) {
	file := os.NewFile(uintptr(fd), "stream")
	conn, err := net.FileConn(file)
	if err := errors.Join(err, file.Close()); err != nil {
		return nil, err
	}
	return conn.(*net.UnixConn), nil
}

// betweenSockets relays the messages of one stream in both directions until both have
// ended.
func (m *middle) betweenSockets(runner, guest *net.UnixConn) {
	lie := make(chan bool, 1) // true before the first data
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		passMessages(guest, runner, func(message []byte) []byte {
			if message[0] != kindData {
				return message
			}
			select {
			case <-lie:
				return append(plantedMessage(), message...)
			default:
				return message
			}
		})
	}()
	passMessages(runner, guest, func(message []byte) []byte {
		if message[0] == kindRequest && m.hear(message) {
			lie <- true
		}
		return message
	})
	<-ended
	_, _ = runner.Close(), guest.Close()
}

// passMessages relays messages after applying change.
func passMessages(from, to *net.UnixConn, change func(message []byte) []byte) {
	defer func() { _ = to.CloseWrite() }()
	for {
		message := make([]byte, messageHeader)
		if _, err := io.ReadFull(from, message); err != nil {
			return
		}
		message = append(message, make([]byte, binary.BigEndian.Uint32(message[1:]))...)
		if _, err := io.ReadFull(from, message[messageHeader:]); err != nil {
			return
		}
		if _, err := to.Write(change(message)); err != nil {
			return
		}
	}
}
