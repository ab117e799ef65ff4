// Package sse reads and writes event streams (server-sent events) as specified in section
// 9.2 of the HTML standard. All code reads such streams through this package, so that what
// is forwarded and what is recorded agree.
//
// The package does no I/O and no buffering: a [Scanner] finds the end of an event in bytes
// that arrive in pieces, the caller buffers them within its own limits, and [Parse] parses
// the event in place. It does not reconnect.
package sse

import (
	"bytes"
	"io"
	"iter"
	"mime"
	"strconv"
	"time"
)

// ContentType is the media type of event streams.
const ContentType = "text/event-stream"

// IsContentType reports whether a Content-Type header names an event stream.
func IsContentType(header string) bool {
	kind, _, _ := mime.ParseMediaType(header)
	return kind == ContentType
}

const byteOrderMark = "\xef\xbb\xbf"

// Scanner splits a stream into parts: an event including the blank line that ends it, a comment
// outside of an event, a single blank line, a late line feed, or the byte order mark that may start
// a stream. Concatenated, the parts are the stream. The zero value is at the start of a stream.
type Scanner struct {
	mark      int  // bytes of the byte order mark so far
	begun     bool // past a possible mark
	inLine    bool // the line has begun
	inEvent   bool // the part has a line that has ended
	inComment bool // the part is a comment
	afterCR   bool // a following line feed belongs to the last line
}

// Scan returns how many bytes of chunk belong to the current part, and whether they
// complete it. The rest of chunk belongs to the following parts. If a chunk ends between
// the carriage return and the line feed of a part's last line, the line feed is a part of its
// own.
func (s *Scanner) Scan(chunk []byte) (n int, whole bool) {
	if !s.begun {
		if n, whole = s.scanMark(chunk); whole || n == len(chunk) {
			return n, whole
		}
	}
	for n < len(chunk) {
		if s.afterCR {
			s.afterCR = false
			if chunk[n] == '\n' {
				n++
				if !s.inEvent { // the event has been read, and must not wait for the rest of its line end
					return n, true
				}
				continue
			}
		}
		if !s.inLine && !s.inEvent && chunk[n] == ':' {
			s.inComment = true
		}
		end := bytes.IndexAny(chunk[n:], "\r\n")
		if end < 0 {
			s.inLine = true
			return len(chunk), false
		}
		blank := end == 0 && !s.inLine
		s.inLine = false
		n += end + 1
		if chunk[n-1] == '\r' {
			s.afterCR = n == len(chunk)
			if !s.afterCR && chunk[n] == '\n' {
				n++
			}
		}
		if blank || s.inComment {
			s.inEvent, s.inComment = false, false
			return n, true
		}
		s.inEvent = true
	}
	return n, false
}

// scanMark scans the byte order mark. An incomplete mark belongs to the first line.
func (s *Scanner) scanMark(chunk []byte) (n int, whole bool) {
	for n < len(chunk) && s.mark < len(byteOrderMark) && chunk[n] == byteOrderMark[s.mark] {
		n++
		s.mark++
	}
	whole = s.mark == len(byteOrderMark)
	s.begun = whole || n < len(chunk)
	s.inLine = s.begun && !whole && s.mark > 0
	return n, whole
}

// Event is one part of a stream. It refers to the bytes from which it was parsed.
type Event struct {
	Type []byte // empty if absent
	// HasID reports whether the event sets the last event ID, from which the stream can be
	// resumed.
	HasID bool

	raw   []byte
	data  []byte // first data line
	lines int    // number of data lines
	size  int    // total size of the data
}

// Parse parses one part of a stream without copying it.
func Parse(raw []byte) Event {
	e := Event{raw: raw}
	for line := range fields(raw) {
		switch string(line.name) {
		case "event":
			e.Type = line.value
		case "id":
			e.HasID = e.HasID || bytes.IndexByte(line.value, 0) < 0
		case "data":
			if e.lines++; e.lines == 1 {
				e.data, e.size = line.value[:len(line.value):len(line.value)], len(line.value)
			} else {
				e.size += len("\n") + len(line.value)
			}
		}
	}
	return e
}

// IsMessage reports whether clients dispatch the event as a message: it has data, and its
// type is message or absent.
func (e Event) IsMessage() bool {
	return e.size > 0 && (len(e.Type) == 0 || string(e.Type) == "message")
}

// Data returns the data of all data lines, or nil if there are none. In the usual case of a
// single line it is a slice of the parsed bytes.
func (e Event) Data() []byte {
	if e.lines < 2 {
		return e.data
	}
	all := make([]byte, 0, e.size+len("\n"))
	for line := range fields(e.raw) {
		if string(line.name) == "data" {
			all = append(append(all, line.value...), '\n')
		}
	}
	return all[:e.size]
}

// DataCost returns how many bytes [Event.Data] allocates.
func (e Event) DataCost() int64 {
	if e.lines < 2 {
		return 0
	}
	return int64(e.size) + int64(len("\n"))
}

// WithData returns the event with its data replaced and all other lines unchanged.
func (e Event) WithData(data []byte) []byte {
	var out []byte
	replaced := false
	for line := range fields(e.raw) {
		switch {
		case string(line.name) != "data":
			out = append(out, line.raw...)
		case !replaced:
			replaced = true
			for value := range dataLines(data) {
				out = append(append(append(out, "data: "...), value...), '\n')
			}
		}
	}
	return out
}

// field is one line of an event: raw includes the line end; name is empty for comments and
// blank lines.
type field struct{ raw, name, value []byte }

func fields(raw []byte) iter.Seq[field] {
	return func(yield func(field) bool) {
		for len(raw) > 0 {
			size := len(raw)
			text := raw
			if end := bytes.IndexAny(raw, "\r\n"); end >= 0 {
				text, size = raw[:end], end+1
				if bytes.HasPrefix(raw[end:], []byte("\r\n")) {
					size++
				}
			}
			name, value, found := bytes.Cut(text, []byte(":"))
			if !found {
				value = text[len(text):] // not nil: data without a colon is still data
			}
			if !yield(field{raw[:size], name, bytes.TrimPrefix(value, []byte(" "))}) {
				return
			}
			raw = raw[size:]
		}
	}
}

// dataLines yields data split into lines. Carriage returns and line feeds both end a line;
// the reader gets a line feed for either, which is equivalent white space in JSON.
func dataLines(data []byte) iter.Seq[[]byte] {
	return func(yield func([]byte) bool) {
		for {
			end := bytes.IndexAny(data, "\r\n")
			if end < 0 {
				yield(data)
				return
			}
			if !yield(data[:end]) {
				return
			}
			data = data[end+1:]
		}
	}
}

// Message is an outgoing event. ID and Type must not contain line breaks.
type Message struct {
	ID    string        // omitted if empty
	Retry time.Duration // reconnection time; omitted if zero
	Type  string        // omitted if empty
	Data  []byte
}

// WriteTo implements [io.WriterTo]. It does not copy the data.
func (m Message) WriteTo(w io.Writer) (int64, error) {
	var head []byte
	if m.ID != "" {
		head = append(append(append(head, "id: "...), m.ID...), '\n')
	}
	if m.Retry > 0 {
		head = append(strconv.AppendInt(append(head, "retry: "...), m.Retry.Milliseconds(), 10), '\n')
	}
	if m.Type != "" {
		head = append(append(append(head, "event: "...), m.Type...), '\n')
	}
	var size int64
	for value := range dataLines(m.Data) {
		head = append(head, "data: "...)
		for _, part := range [][]byte{head, value, []byte("\n")} {
			n, err := w.Write(part)
			size += int64(n)
			if err != nil {
				return size, err
			}
		}
		head = head[:0]
	}
	n, err := w.Write([]byte("\n"))
	return size + int64(n), err
}

// KeepAlive is a comment that keeps a stream alive.
const KeepAlive = ": keepalive\n\n"
