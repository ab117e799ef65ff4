package proxy

import (
	"bufio"
	"bytes"
	"errors"
	"io"

	"github.com/waza-isolate/waza/internal/bounded"
	"github.com/waza-isolate/waza/internal/jsontext"
	"github.com/waza-isolate/waza/mcp/sse"
)

var (
	errTooLong  = errors.New("over the limit of one message")
	errNoMemory = errors.New("over the memory that all messages may take")
)

// holding collects the bytes of one message, against its own limit and against
// the memory shared by all.
type holding struct {
	buf    []byte
	max    int64
	memory *bounded.Budget
	beside int64 // bytes that are held about the message
}

func (h *holding) add(p []byte) error {
	if int64(len(h.buf)+len(p)) > h.max {
		return errTooLong
	}
	if err := h.grow(len(h.buf) + len(p)); err != nil {
		return err
	}
	h.buf = append(h.buf, p...)
	return nil
}

// grow makes room for need bytes, and counts the old room beside the new for as long
// as there are both.
func (h *holding) grow(need int) error {
	old := cap(h.buf)
	if need <= old {
		return nil
	}
	size := int(min(int64(max(need, 2*old)), h.max))
	if !h.memory.Take(int64(size)) {
		return errNoMemory
	}
	buf := make([]byte, len(h.buf), size)
	copy(buf, h.buf)
	h.buf = buf
	h.memory.Give(int64(old))
	return nil
}

// note counts what is held about the message and not in it.
func (h *holding) note(bytes int64) error {
	if !h.memory.Take(bytes) {
		return errNoMemory
	}
	h.beside += bytes
	return nil
}

// release gives the memory back; whoever still holds the bytes accounts for them.
func (h *holding) release() {
	h.memory.Give(int64(cap(h.buf)) + h.beside)
	h.buf, h.beside = nil, 0
}

// readBody reads r to its end, and counts what reading the message will cost. The
// caller releases the holding, also after an error.
func readBody(r io.Reader, max int64, memory *bounded.Budget) (*holding, error) {
	h := &holding{max: max, memory: memory}
	chunk := make([]byte, 32<<10)
	for {
		n, err := r.Read(chunk)
		if err := h.add(chunk[:n]); err != nil {
			return h, err
		}
		if err == io.EOF {
			return h, h.note(parseCost(h.buf))
		}
		if err != nil {
			return h, err
		}
	}
}

// partReader reads a stream in parts, whose ends a scanner finds.
type partReader struct {
	in     io.Reader
	max    int64
	memory *bounded.Budget
	scan   func(chunk []byte) (n int, whole bool)

	buf   []byte
	chunk []byte // of buf: read and not taken yet
	ended error  // of in
}

// next reads one part. Where the input ends first it returns the rest with io.EOF or another
// error. The caller releases the holding, also after an error.
func (r *partReader) next() (*holding, error) {
	h := &holding{max: r.max, memory: r.memory}
	for {
		end, whole := r.scan(r.chunk)
		if err := h.add(r.chunk[:end]); err != nil {
			return h, err
		}
		r.chunk = r.chunk[end:]
		if whole {
			return h, nil
		}
		if r.ended != nil {
			return h, r.ended
		}
		if r.buf == nil {
			r.buf = make([]byte, 32<<10)
		}
		var n int
		n, r.ended = r.in.Read(r.buf)
		r.chunk = r.buf[:n]
	}
}

// messageReader reads JSON values that stand one behind the other, each an object or an
// array with the white space before it.
type messageReader struct{ parts partReader }

func newMessageReader(r io.Reader, max int64, memory *bounded.Budget) *messageReader {
	var s jsontext.Scanner
	return &messageReader{partReader{in: r, max: max, memory: memory, scan: s.Scan}}
}

// next reads one value. Where the input ends first it returns the rest with io.EOF or
// another error. The caller releases the holding, also after an error.
func (r *messageReader) next() (*holding, error) {
	h, err := r.parts.next()
	if err == nil || err == r.parts.ended {
		if noted := h.note(parseCost(h.buf)); noted != nil {
			err = noted
		}
	}
	return h, err
}

// event is a part of an event stream that is held.
type event struct {
	sse.Event
	raw  []byte // as it came
	data []byte // nil without a data line
	held *holding
}

// release gives back the memory that the event counts for.
func (e event) release() { e.held.release() }

// eventReader reads an event stream.
type eventReader struct{ parts partReader }

func newEventReader(r io.Reader, max int64, memory *bounded.Budget) *eventReader {
	var s sse.Scanner
	return &eventReader{partReader{in: r, max: max + 1<<10, memory: memory, scan: s.Scan}}
}

// next reads one part of the stream, which the caller releases. At the end of the stream it
// fails with io.EOF where that comes between events, else with io.ErrUnexpectedEOF; what
// came of an unfinished event is no event.
func (r *eventReader) next() (event, error) {
	h, err := r.parts.next()
	if err == io.EOF && len(bytes.Trim(h.buf, "\r\n")) > 0 {
		err = io.ErrUnexpectedEOF
	}
	e := event{Event: sse.Parse(h.buf), raw: h.buf, held: h}
	if err == nil {
		err = h.note(e.DataCost())
	}
	if err == nil {
		e.data = e.Data()
		err = h.note(parseCost(e.data))
	}
	if err != nil {
		h.release()
		return event{}, err
	}
	return e, nil
}

// readLines calls each with every line of r, without its terminator, until r
// ends or each fails. Blank lines are skipped; a last line needs no terminator. The slice is
// each's to keep.
func readLines(r io.Reader, max int64, memory *bounded.Budget, each func([]byte) error) error {
	in := bufio.NewReaderSize(r, 64<<10)
	for {
		line := &holding{max: max + 2, memory: memory} // + CR LF
		err := readLine(in, line)
		whole := bytes.TrimSuffix(bytes.TrimSuffix(line.buf, []byte("\n")), []byte("\r"))
		usable := err == nil || err == io.EOF
		if usable && int64(len(whole)) > max {
			err, usable = errTooLong, false
		}
		if usable && len(jsontext.TrimSpace(whole)) > 0 {
			if noted := line.note(parseCost(whole)); noted != nil {
				err = noted
			} else if refused := each(whole); refused != nil {
				err = refused
			}
		}
		line.release()
		if err != nil {
			return ignoreEOF(err)
		}
	}
}

func readLine(in *bufio.Reader, line *holding) error {
	for {
		part, err := in.ReadSlice('\n')
		if err := line.add(part); err != nil {
			return err
		}
		if err != bufio.ErrBufferFull {
			return err
		}
	}
}

func ignoreEOF(err error) error {
	if err == io.EOF {
		return nil
	}
	return err
}
