package transport

import (
	"bufio"
	"bytes"
	"io"

	"github.com/waza-isolate/waza/internal/bounded"
	"github.com/waza-isolate/waza/internal/jsontext"
	"github.com/waza-isolate/waza/mcp/jsonrpc"
	"github.com/waza-isolate/waza/mcp/sse"
)

// Held is the bytes of one message, against its own limit and against
// the memory shared by all.
type Held struct {
	Bytes  []byte
	max    int64
	memory *bounded.Budget
	beside int64 // bytes that are held about the message
}

func (h *Held) add(p []byte) error {
	if int64(len(h.Bytes)+len(p)) > h.max {
		return ErrTooLong
	}
	if err := h.grow(len(h.Bytes) + len(p)); err != nil {
		return err
	}
	h.Bytes = append(h.Bytes, p...)
	return nil
}

// grow makes room for need bytes, and counts the old room beside the new for as long
// as there are both.
func (h *Held) grow(need int) error {
	old := cap(h.Bytes)
	if need <= old {
		return nil
	}
	size := int(min(int64(max(need, 2*old)), h.max+1)) // one more byte shows that a message is too long
	if !h.memory.Take(int64(size)) {
		return ErrNoMemory
	}
	grown := make([]byte, len(h.Bytes), size)
	copy(grown, h.Bytes)
	h.Bytes = grown
	h.memory.Give(int64(old))
	return nil
}

// note counts what is held about the message and not in it.
func (h *Held) note(bytes int64) error {
	if !h.memory.Take(bytes) {
		return ErrNoMemory
	}
	h.beside += bytes
	return nil
}

// Release gives the memory back; whoever still holds the bytes accounts for them.
func (h *Held) Release() {
	h.memory.Give(int64(cap(h.Bytes)) + h.beside)
	h.Bytes, h.beside = nil, 0
}

// Room that is made for a message before any of it has come.
const (
	leastRoom = 512
	mostRoom  = 32 << 10
)

// ReadBody reads r, which is said to have size bytes, to its end. A negative size is not known.
// What it returns counts for the message and for what reading it will cost. The caller
// releases it, also after an error.
func ReadBody(r io.Reader, size, max int64, memory *bounded.Budget) (*Held, error) {
	h := &Held{max: max, memory: memory}
	room := int64(leastRoom)
	if size >= 0 {
		room = min(size+1, mostRoom) // the last byte of room takes the end
	}
	err := h.grow(int(room))
	for err == nil {
		used := len(h.Bytes)
		if used == cap(h.Bytes) {
			err = h.grow(used + 1)
			continue
		}
		var n int
		n, err = r.Read(h.Bytes[used:cap(h.Bytes)])
		h.Bytes = h.Bytes[:used+n]
		if int64(len(h.Bytes)) > max {
			return h, ErrTooLong
		}
	}
	if err != io.EOF {
		return h, err
	}
	return h, h.note(messageCost(h.Bytes))
}

// partReader reads a stream in parts, whose ends a scanner finds.
type partReader struct {
	in     io.Reader
	max    int64
	memory *bounded.Budget
	scan   func(chunk []byte) (n int, whole bool)

	buf   []byte
	full  bool   // the last read filled buf, so more of it saves reads
	chunk []byte // of buf: read and not taken yet
	ended error  // of in
}

func newPartReader(r io.Reader, max int64, memory *bounded.Budget, scan func([]byte) (int, bool)) partReader {
	return partReader{in: r, max: max, memory: memory, scan: scan, buf: make([]byte, 4<<10)}
}

// next reads one part. Where the input ends first it returns the rest with io.EOF or another
// error. The caller releases the Held, also after an error.
func (r *partReader) next() (*Held, error) {
	h := &Held{max: r.max, memory: r.memory}
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
		if r.full && len(r.buf) < mostRoom {
			r.buf = make([]byte, 2*len(r.buf))
		}
		var n int
		n, r.ended = r.in.Read(r.buf)
		r.chunk, r.full = r.buf[:n], n == len(r.buf)
	}
}

// MessageReader reads JSON values that stand one behind the other, each an object or an
// array with the white space before it.
type MessageReader struct{ parts partReader }

// NewMessageReader returns a reader of r. Each value may have max bytes.
func NewMessageReader(r io.Reader, max int64, memory *bounded.Budget) *MessageReader {
	var s jsontext.Scanner
	return &MessageReader{newPartReader(r, max, memory, s.Scan)}
}

// Next reads one value. Where the input ends first it returns the rest with io.EOF or
// another error. The caller releases the Held, also after an error.
func (r *MessageReader) Next() (*Held, error) {
	h, err := r.parts.next()
	if err == nil || err == r.parts.ended {
		if noted := h.note(messageCost(h.Bytes)); noted != nil {
			err = noted
		}
	}
	return h, err
}

// Event is a part of an event stream that is held.
type Event struct {
	sse.Event
	Raw  []byte // as it came
	Data []byte // nil without a data line
	held *Held
}

// Release gives back the memory that the event counts for.
func (e Event) Release() { e.held.Release() }

// EventReader reads an event stream.
type EventReader struct{ parts partReader }

// NewEventReader returns a reader of r. The data of each event may have max bytes.
func NewEventReader(r io.Reader, max int64, memory *bounded.Budget) *EventReader {
	var s sse.Scanner
	return &EventReader{newPartReader(r, max+1<<10, memory, s.Scan)}
}

// Next reads one part of the stream, which the caller releases. At the end of the stream it
// fails with io.EOF where that comes between events, else with io.ErrUnexpectedEOF; what
// came of an unfinished event is no event.
func (r *EventReader) Next() (Event, error) {
	h, err := r.parts.next()
	if err == io.EOF && len(bytes.Trim(h.Bytes, "\r\n")) > 0 {
		err = io.ErrUnexpectedEOF
	}
	e := Event{Event: sse.Parse(h.Bytes), Raw: h.Bytes, held: h}
	if err == nil {
		err = h.note(e.DataCost())
	}
	if err == nil {
		e.Data = e.Event.Data()
		err = h.note(messageCost(e.Data))
	}
	if err != nil {
		h.Release()
		return Event{}, err
	}
	return e, nil
}

// messageCost returns more than what a reader of raw holds beside it: ids, names and versions
// are copies, and a batch has many.
func messageCost(raw []byte) int64 {
	size := int64(len(raw))
	if value := jsontext.TrimSpace(raw); len(value) == 0 || value[0] != '[' {
		return costOfOne + min(3*size, 3*jsontext.Piece)
	}
	return min(size/smallestMessage+1, jsonrpc.MaxBatch)*costOfOne + min(3*size, jsonrpc.MaxBatch*6*jsonrpc.MaxName)
}

const (
	costOfOne       = 512 // more than what is held about one message beside its texts
	smallestMessage = 16  // fewer bytes than any message has in a batch
)

// readLines calls each with every line of r, without its terminator, until r
// ends or each fails. Blank lines are skipped; a last line needs no terminator. The slice is
// each's to keep.
func readLines(r io.Reader, max int64, memory *bounded.Budget, each func([]byte) error) error {
	in := bufio.NewReaderSize(r, 64<<10)
	for {
		line := &Held{max: max + 2, memory: memory} // + CR LF
		err := readLine(in, line)
		whole := bytes.TrimSuffix(bytes.TrimSuffix(line.Bytes, []byte("\n")), []byte("\r"))
		usable := err == nil || err == io.EOF
		if usable && int64(len(whole)) > max {
			err, usable = ErrTooLong, false
		}
		if usable && len(jsontext.TrimSpace(whole)) > 0 {
			if noted := line.note(messageCost(whole)); noted != nil {
				err = noted
			} else if refused := each(whole); refused != nil {
				err = refused
			}
		}
		line.Release()
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

func readLine(in *bufio.Reader, line *Held) error {
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
