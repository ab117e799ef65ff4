package transport

import (
	"bytes"
	"io"

	"github.com/waza-isolate/waza/internal/bounded"
	"github.com/waza-isolate/waza/internal/jsontext"
	"github.com/waza-isolate/waza/mcp/jsonrpc"
	"github.com/waza-isolate/waza/mcp/sse"
)

// ReadBody reads r to its end. size is the announced size, negative if unknown. The buffer
// also accounts for the memory for parsing the message. The caller must release it, even
// after an error.
func ReadBody(r io.Reader, size, max int64, memory *bounded.Budget) (*bounded.Buffer, error) {
	body := &bounded.Buffer{Max: max, Share: memory}
	if err := body.ReadAll(r, size); err != nil {
		return body, err
	}
	return body, body.Charge(messageCost(body.Bytes))
}

// partReader splits a stream into parts whose ends are found by scan.
type partReader struct {
	in     io.Reader
	max    int64
	memory *bounded.Budget
	scan   func(chunk []byte) (n int, whole bool)

	buf   []byte
	full  bool   // the last read filled buf, so a larger one saves reads
	chunk []byte // part of buf that was read but not yet consumed
	ended error  // error from in
}

func newPartReader(r io.Reader, max int64, memory *bounded.Budget, scan func([]byte) (int, bool)) partReader {
	return partReader{in: r, max: max, memory: memory, scan: scan, buf: make([]byte, 4<<10)}
}

// mostBuffer is the maximum size of a partReader's buffer.
const mostBuffer = 32 << 10

// next reads one part. If the input ends first it returns the rest with io.EOF or another
// error. The caller must release the buffer, even after an error.
func (r *partReader) next() (*bounded.Buffer, error) {
	part := &bounded.Buffer{Max: r.max, Share: r.memory}
	for {
		end, whole := r.scan(r.chunk)
		if err := part.Append(r.chunk[:end]); err != nil {
			return part, err
		}
		r.chunk = r.chunk[end:]
		if whole {
			return part, nil
		}
		if r.ended != nil {
			return part, r.ended
		}
		if r.full && len(r.buf) < mostBuffer {
			r.buf = make([]byte, 2*len(r.buf))
		}
		var n int
		n, r.ended = r.in.Read(r.buf)
		r.chunk, r.full = r.buf[:n], n == len(r.buf)
	}
}

// MessageReader reads a sequence of messages.
type MessageReader struct{ parts partReader }

// NewMessageReader returns a reader of JSON values. Each is an object or array of up to max bytes,
// with the preceding white space and the part of the following line end that has arrived with it.
// The rest of the line end and other white space is read separately when it arrives, but not before
// the first value, since readers of lines wait for one.
func NewMessageReader(r io.Reader, max int64, memory *bounded.Budget) *MessageReader {
	s := messageScanner{first: true}
	return &MessageReader{newPartReader(r, max+2, memory, s.scan)} // + CR LF
}

// messageScanner finds the ends of messages and of white space between them.
type messageScanner struct {
	value jsontext.Scanner
	begun bool // a value has begun
	first bool // no value has ended
}

func (s *messageScanner) scan(chunk []byte) (n int, whole bool) {
	n, whole = s.value.Scan(chunk)
	s.begun = s.begun || len(jsontext.TrimSpace(chunk[:n])) > 0
	if whole {
		s.begun, s.first = false, false
		rest := chunk[n:]
		return n + len(rest) - len(trimLineEnd(rest)), true
	}
	return n, n > 0 && !s.begun && !s.first
}

// trimLineEnd removes the CR, the LF or both at the beginning of b.
func trimLineEnd(b []byte) []byte {
	return bytes.TrimPrefix(bytes.TrimPrefix(b, []byte("\r")), []byte("\n"))
}

// Next reads one message. If the input ends first it returns the rest with io.EOF or
// another error. The caller must release the buffer, even after an error.
func (r *MessageReader) Next() (*bounded.Buffer, error) {
	message, err := r.parts.next()
	if err == nil || err == r.parts.ended {
		if over := message.Charge(messageCost(message.Bytes)); over != nil {
			err = over
		}
	}
	return message, err
}

// readLines calls each with every line of r without its terminator, until r ends or each
// returns an error. Blank lines are skipped; the last line needs no terminator. each may
// keep the slice.
func readLines(r io.Reader, max int64, memory *bounded.Budget, each func([]byte) error) error {
	in := MessageReader{newPartReader(r, max+2, memory, scanLine)} // + CR LF
	for {
		read, err := in.Next()
		line := bytes.TrimSuffix(bytes.TrimSuffix(read.Bytes, []byte("\n")), []byte("\r"))
		switch {
		case err != nil && err != io.EOF:
		case int64(len(line)) > max:
			err = ErrTooLong
		case len(jsontext.TrimSpace(line)) > 0:
			if refused := each(line); refused != nil {
				err = refused
			}
		}
		read.Release()
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

// scanLine finds the end of the current line.
func scanLine(chunk []byte) (n int, whole bool) {
	if end := bytes.IndexByte(chunk, '\n'); end >= 0 {
		return end + 1, true
	}
	return len(chunk), false
}

// Event is a part of an event stream held in memory.
type Event struct {
	sse.Event
	Raw  []byte // as received
	Data []byte // nil without data lines
	held *bounded.Buffer
}

// Release releases the event's memory.
func (e Event) Release() { e.held.Release() }

// EventReader reads an event stream.
type EventReader struct{ parts partReader }

// NewEventReader returns a reader of r. The data of each event is limited to max bytes.
func NewEventReader(r io.Reader, max int64, memory *bounded.Budget) *EventReader {
	var s sse.Scanner
	return &EventReader{newPartReader(r, max+1<<10, memory, s.Scan)}
}

// Next reads one part of the stream. The caller must release it. At the end of the stream
// it returns io.EOF, or io.ErrUnexpectedEOF within an event.
func (r *EventReader) Next() (Event, error) {
	part, err := r.parts.next()
	if err == io.EOF && len(bytes.Trim(part.Bytes, "\r\n")) > 0 {
		err = io.ErrUnexpectedEOF
	}
	e := Event{Event: sse.Parse(part.Bytes), Raw: part.Bytes, held: part}
	if err == nil {
		err = part.Charge(e.DataCost())
	}
	if err == nil {
		e.Data = e.Event.Data()
		err = part.Charge(messageCost(e.Data))
	}
	if err != nil {
		part.Release()
		return Event{}, err
	}
	return e, nil
}

// messageCost returns an upper bound on the memory for parsing raw, besides raw itself:
// ids, names and versions are copied, and a batch has many of them.
func messageCost(raw []byte) int64 {
	size := int64(len(raw))
	if value := jsontext.TrimSpace(raw); len(value) == 0 || value[0] != '[' {
		return costOfOne + min(3*size, 3*jsontext.Piece)
	}
	return min(size/smallestMessage+1, jsonrpc.MaxBatch)*costOfOne + min(3*size, jsonrpc.MaxBatch*6*jsonrpc.MaxName)
}

const (
	costOfOne       = 512 // upper bound for one message, besides its texts
	smallestMessage = 16  // lower bound for a message in a batch
)
