package guest

import (
	"encoding/binary"
	"io"
)

// maxJoined is up to which length a body is copied to go out with its header.
const maxJoined = 4 << 10

// whole passes the mux's frames on in one write each where they are short. yamux
// writes a frame's header and its body apart, and each write makes its own way
// through the engine, which costs more than it carries.
type whole struct {
	io.ReadWriteCloser
	frame []byte // a header whose body is to come, else empty; of yamux's one writer
}

// Write takes a header, or all of the body that belongs to the last one.
func (w *whole) Write(p []byte) (int, error) {
	header := len(w.frame)
	switch {
	case header == 0 && announcesBody(p):
		w.frame = append(w.frame, p...)
		return len(p), nil
	case header == 0:
		return w.ReadWriteCloser.Write(p)
	}
	defer func() { w.frame = w.frame[:0] }()
	if len(p) > maxJoined {
		if _, err := w.ReadWriteCloser.Write(w.frame); err != nil {
			return 0, err
		}
		return w.ReadWriteCloser.Write(p)
	}
	w.frame = append(w.frame, p...)
	n, err := w.ReadWriteCloser.Write(w.frame)
	return max(0, n-header), err
}

func announcesBody(p []byte) bool {
	return len(p) == muxHeaderSize && p[1] == muxData && binary.BigEndian.Uint32(p[8:]) > 0
}
