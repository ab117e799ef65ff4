package transport

import (
	"bytes"
	"io"

	"github.com/waza-isolate/waza/internal/bounded"
	"github.com/waza-isolate/waza/internal/jsontext"
	"github.com/waza-isolate/waza/mcp/jsonrpc"
	"github.com/waza-isolate/waza/mcp/sse"
)

// ReadBody reads r, which is said to have size bytes, to its end. A negative size is not known.
// The buffer also counts what reading the message will cost. The caller releases it, also after
// an error.
func ReadBody(r io.Reader, size, max int64, memory *bounded.Budget) (*bounded.Buffer, error) {
	body := &bounded.Buffer{Max: max, Share: memory}
	if err := body.ReadAll(r, size); err != nil {
		return body, err
	}
	return body, body.Charge(messageCost(body.Bytes))
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

// mostBuffer is how large the buffer of a partReader grows.
const mostBuffer = 32 << 10

// next reads one part. Where the input ends first it returns the rest with io.EOF or another
// error. The caller releases the buffer, also after an error.
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

// MessageReader reads messages one after the other.
type MessageReader struct{ parts partReader }

// NewMessageReader returns a reader of JSON values, each an object or an array with the white
// space before it. Each may have max bytes.
func NewMessageReader(r io.Reader, max int64, memory *bounded.Budget) *MessageReader {
	var s jsontext.Scanner
	return &MessageReader{newPartReader(r, max, memory, s.Scan)}
}

// Next reads one message. Where the input ends first it returns the rest with io.EOF or
// another error. The caller releases the buffer, also after an error.
func (r *MessageReader) Next() (*bounded.Buffer, error) {
	message, err := r.parts.next()
	if err == nil || err == r.parts.ended {
		if over := message.Charge(messageCost(message.Bytes)); over != nil {
			err = over
		}
	}
	return message, err
}

// readLines calls each with every line of r, without its terminator, until r
// ends or each fails. Blank lines are skipped; a last line needs no terminator. The slice is
// each's to keep.
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

// scanLine finds the end of a line in the next bytes of one.
func scanLine(chunk []byte) (n int, whole bool) {
	if end := bytes.IndexByte(chunk, '\n'); end >= 0 {
		return end + 1, true
	}
	return len(chunk), false
}

// Event is a part of an event stream that is held.
type Event struct {
	sse.Event
	Raw  []byte // as it came
	Data []byte // nil without a data line
	held *bounded.Buffer
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
// fails with io.EOF, or with io.ErrUnexpectedEOF if an event is unfinished.
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

// messageCost returns more than what a reader of raw holds in addition to it: ids, names and
// versions are copies, and a batch has many.
func messageCost(raw []byte) int64 {
	size := int64(len(raw))
	if value := jsontext.TrimSpace(raw); len(value) == 0 || value[0] != '[' {
		return costOfOne + min(3*size, 3*jsontext.Piece)
	}
	return min(size/smallestMessage+1, jsonrpc.MaxBatch)*costOfOne + min(3*size, jsonrpc.MaxBatch*6*jsonrpc.MaxName)
}

const (
	costOfOne       = 512 // more than what is held about one message in addition to its texts
	smallestMessage = 16  // fewer bytes than any message has in a batch
)
