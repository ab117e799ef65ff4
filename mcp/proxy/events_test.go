package proxy

import (
	"bytes"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/google/go-cmp/cmp"
	"github.com/waza-isolate/waza/internal/bounded"
)

// heardEvent is an event as a test writes it down.
type heardEvent struct {
	Raw, Data, Kind string
	ID              bool
}

func readEvents(r io.Reader, max int64) ([]heardEvent, error) {
	in := newEventReader(r, max, bounded.NewBudget(1<<40))
	var all []heardEvent
	for {
		e, err := in.next()
		if err != nil {
			return all, err
		}
		all = append(all, heardEvent{string(e.raw), string(e.data), e.kind, e.id})
		e.release()
	}
}

func TestEvents(t *testing.T) {
	tests := map[string]struct {
		in   string
		want []heardEvent
		err  error
	}{
		"plain":            {"data: a\n\n", []heardEvent{{"data: a\n\n", "a", "", false}}, io.EOF},
		"no space":         {"data:a\n\n", []heardEvent{{"data:a\n\n", "a", "", false}}, io.EOF},
		"two spaces":       {"data:  a\n\n", []heardEvent{{"data:  a\n\n", " a", "", false}}, io.EOF},
		"all fields":       {"event: e\nid: 1\nretry: 5\ndata: a\nother: x\n\n", []heardEvent{{"event: e\nid: 1\nretry: 5\ndata: a\nother: x\n\n", "a", "e", true}}, io.EOF},
		"lines of data":    {"data: a\ndata: b\ndata\n\n", []heardEvent{{"data: a\ndata: b\ndata\n\n", "a\nb\n", "", false}}, io.EOF},
		"CR LF":            {"data: a\r\n\r\ndata: b\r\n\r\n", []heardEvent{{"data: a\r\n\r\n", "a", "", false}, {"data: b\r\n\r\n", "b", "", false}}, io.EOF},
		"CR":               {"data: a\r\rdata: b\r\r", []heardEvent{{"data: a\r\r", "a", "", false}, {"data: b\r\r", "b", "", false}}, io.EOF},
		"a comment":        {": c\ndata: a\n\n", []heardEvent{{": c\n", "", "", false}, {"data: a\n\n", "a", "", false}}, io.EOF},
		"a comment within": {"data: a\n: c\ndata: b\n\n", []heardEvent{{"data: a\n: c\ndata: b\n\n", "a\nb", "", false}}, io.EOF},
		"blank lines":      {"\n\ndata: a\n\n", []heardEvent{{"\n", "", "", false}, {"\n", "", "", false}, {"data: a\n\n", "a", "", false}}, io.EOF},
		"priming":          {"id: 1\ndata:\n\n", []heardEvent{{"id: 1\ndata:\n\n", "", "", true}}, io.EOF},
		"byte order mark":  {"\xef\xbb\xbfdata: a\n\n", []heardEvent{{"\xef\xbb\xbfdata: a\n\n", "a", "", false}}, io.EOF},
		"unfinished":       {"data: a\n\ndata: b\n", []heardEvent{{"data: a\n\n", "a", "", false}}, io.ErrUnexpectedEOF},
		"half a line":      {"data: a", nil, io.ErrUnexpectedEOF},
		"too long":         {"data: a\n\ndata: " + strings.Repeat("x", 4096), []heardEvent{{"data: a\n\n", "a", "", false}}, errTooLong},
		"empty":            {"", nil, io.EOF},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			got, err := readEvents(strings.NewReader(test.in), 1024)
			if diff := cmp.Diff(test.want, got); diff != "" || !errors.Is(err, test.err) {
				t.Errorf("%v\n%s", err, diff)
			}
			slow, _ := readEvents(iotest.OneByteReader(strings.NewReader(test.in)), 1024)
			for i := range min(len(got), len(slow)) {
				if slow[i].Data != got[i].Data || slow[i].Kind != got[i].Kind {
					t.Errorf("byte by byte: %+v", slow[i])
				}
			}
			if len(slow) < len(got) {
				t.Errorf("byte by byte: %d events", len(slow))
			}
		})
	}
}

func TestEventWithOtherData(t *testing.T) {
	in := newEventReader(strings.NewReader("id: 1\ndata: {\n: c\ndata: }\nretry: 2\n\n"), 1024, bounded.NewBudget(1<<20))
	e, err := in.next()
	if err != nil {
		t.Fatal(err)
	}
	if got, want := string(e.with([]byte("[\n]"))), "id: 1\ndata: [\ndata: ]\n: c\nretry: 2\n\n"; got != want {
		t.Errorf("got %q", got)
	}
}

func TestEventOfManyLines(t *testing.T) {
	many := strings.Repeat("data:\n", maxLines+1)
	if _, err := readEvents(strings.NewReader(many), 1<<30); !errors.Is(err, errTooLong) {
		t.Errorf("got %v", err)
	}
}

// FuzzEvents holds that no byte is lost or changed, and that it does not matter in
// what pieces a stream comes.
func FuzzEvents(f *testing.F) {
	for _, seed := range []string{"data: a\n\n", "event: e\r\nid: 1\r\ndata: a\r\n\r\n", ": c\rdata\r\r", "\xef\xbb\xbfdata:x\n\n", "\xefdata:x\n\n"} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, in []byte) {
		join := func(events []heardEvent) (raw, data string) {
			for _, e := range events {
				raw += e.Raw
				if e.Data != "" {
					data += e.Kind + "\x00" + e.Data + "\x00"
				}
			}
			return raw, data
		}
		whole, err := readEvents(bytes.NewReader(in), 1<<20)
		raw, data := join(whole)
		if !strings.HasPrefix(string(in), raw) {
			t.Errorf("%q became %q", in, raw)
		}
		if err == io.EOF && strings.Trim(string(in)[len(raw):], "\r\n") != "" {
			t.Errorf("lost %q", string(in)[len(raw):])
		}
		pieces, _ := readEvents(iotest.OneByteReader(bytes.NewReader(in)), 1<<20)
		if _, slow := join(pieces); slow != data {
			t.Errorf("%q became %q in pieces, %q at once", in, slow, data)
		}
	})
}
