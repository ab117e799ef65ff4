package sse

import (
	"bytes"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// part is one part of a stream as a test writes it down.
type part struct {
	Raw, Data, Type string
	ID              bool
}

// split returns the complete events of a stream that arrives in pieces of the given size,
// and the rest.
func split(in []byte, piece int) (parts []part, rest string) {
	var s Scanner
	var held []byte
	for chunk := range slices.Chunk(in, piece) {
		for len(chunk) > 0 {
			n, whole := s.Scan(chunk)
			held, chunk = append(held, chunk[:n]...), chunk[n:]
			if whole {
				e := Parse(held)
				parts = append(parts, part{string(held), string(e.Data()), string(e.Type), e.HasID})
				held = nil
			}
		}
	}
	return parts, string(held)
}

func TestSplit(t *testing.T) {
	tests := map[string]struct {
		in   string
		want []part
		rest string
	}{
		"plain":            {"data: a\n\n", []part{{"data: a\n\n", "a", "", false}}, ""},
		"no space":         {"data:a\n\n", []part{{"data:a\n\n", "a", "", false}}, ""},
		"two spaces":       {"data:  a\n\n", []part{{"data:  a\n\n", " a", "", false}}, ""},
		"a colon within":   {"data: a: b\n\n", []part{{"data: a: b\n\n", "a: b", "", false}}, ""},
		"all fields":       {"event: e\nid: 1\nretry: 5\ndata: a\nother: x\n\n", []part{{"event: e\nid: 1\nretry: 5\ndata: a\nother: x\n\n", "a", "e", true}}, ""},
		"the case counts":  {"Data: a\ndata: b\n\n", []part{{"Data: a\ndata: b\n\n", "b", "", false}}, ""},
		"an id with a NUL": {"id: 1\x00\ndata: a\n\n", []part{{"id: 1\x00\ndata: a\n\n", "a", "", false}}, ""},
		"an empty id":      {"id\ndata: a\n\n", []part{{"id\ndata: a\n\n", "a", "", true}}, ""},
		"lines of data":    {"data: a\ndata: b\ndata\n\n", []part{{"data: a\ndata: b\ndata\n\n", "a\nb\n", "", false}}, ""},
		"CR LF":            {"data: a\r\n\r\ndata: b\r\n\r\n", []part{{"data: a\r\n\r\n", "a", "", false}, {"data: b\r\n\r\n", "b", "", false}}, ""},
		"CR":               {"data: a\r\rdata: b\r\r", []part{{"data: a\r\r", "a", "", false}, {"data: b\r\r", "b", "", false}}, ""},
		"a comment":        {": c\ndata: a\n\n", []part{{": c\n", "", "", false}, {"data: a\n\n", "a", "", false}}, ""},
		"a comment within": {"data: a\n: c\ndata: b\n\n", []part{{"data: a\n: c\ndata: b\n\n", "a\nb", "", false}}, ""},
		"blank lines":      {"\n\ndata: a\n\n", []part{{"\n", "", "", false}, {"\n", "", "", false}, {"data: a\n\n", "a", "", false}}, ""},
		"priming":          {"id: 1\ndata:\n\n", []part{{"id: 1\ndata:\n\n", "", "", true}}, ""},
		"byte order mark":  {"\xef\xbb\xbfdata: a\n\n", []part{{"\xef\xbb\xbf", "", "", false}, {"data: a\n\n", "a", "", false}}, ""},
		"half a mark":      {"\xef\xbbdata: a\n\n", []part{{"\xef\xbbdata: a\n\n", "", "", false}}, ""},
		"half a mark only": {"\xef\n\n", []part{{"\xef\n\n", "", "", false}}, ""},
		"a mark later":     {"\n\xef\xbb\xbfdata: a\n\n", []part{{"\n", "", "", false}, {"\xef\xbb\xbfdata: a\n\n", "", "", false}}, ""},
		"unfinished":       {"data: a\n\ndata: b\n", []part{{"data: a\n\n", "a", "", false}}, "data: b\n"},
		"half a line":      {"data: a", nil, "data: a"},
		"empty":            {"", nil, ""},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			got, rest := split([]byte(test.in), max(1, len(test.in)))
			if diff := cmp.Diff(test.want, got); diff != "" || rest != test.rest {
				t.Errorf("left %q\n%s", rest, diff)
			}
		})
	}
}

func TestMessage(t *testing.T) {
	for raw, want := range map[string]bool{
		"data: a\n\n": true, "event: message\ndata: a\n\n": true, "event\ndata: a\n\n": true, "data\ndata\n\n": true,
		"event: endpoint\ndata: a\n\n": false, "event: message\n\n": false, "data:\n\n": false, ": data: a\n": false,
	} {
		if got := Parse([]byte(raw)).IsMessage(); got != want {
			t.Errorf("%q: %v", raw, got)
		}
	}
}

func TestWithData(t *testing.T) {
	e := Parse([]byte("id: 1\ndata: {\n: c\r\ndata: }\nretry: 2\n\n"))
	if got, want := string(e.WithData([]byte("[\n]"))), "id: 1\ndata: [\ndata: ]\n: c\r\nretry: 2\n\n"; got != want {
		t.Errorf("got %q", got)
	}
}

func TestWrite(t *testing.T) {
	for want, m := range map[string]Message{
		"data: a\n\n":                          {Data: []byte("a")},
		"data: \n\n":                           {},
		"data: a\ndata: \ndata: b\ndata: \n\n": {Data: []byte("a\r\nb\r")},
		"event: e\ndata: a\n\n":                {Type: "e", Data: []byte("a")},
		"id: 1-2\nretry: 1500\nevent: e\ndata: [1\ndata: ]\n\n": {ID: "1-2", Retry: 1500 * time.Millisecond, Type: "e", Data: []byte("[1\n]")},
	} {
		var out bytes.Buffer
		if n, err := m.WriteTo(&out); err != nil || n != int64(out.Len()) || out.String() != want {
			t.Errorf("%q, want %q; %d, %v", out.String(), want, n, err)
		}
	}
}

func TestIsContentType(t *testing.T) {
	for header, want := range map[string]bool{"text/event-stream": true, "Text/Event-Stream; charset=utf-8": true, "text/event-streams": false, "": false} {
		if IsContentType(header) != want {
			t.Error(header)
		}
	}
}

// FuzzScanner checks that no byte is lost or changed, that the result does not depend on
// how a stream is split, and that written events are read back.
func FuzzScanner(f *testing.F) {
	for _, seed := range []string{"data: a\n\n", "event: e\r\nid: 1\r\ndata: a\r\n\r\n", ": c\rdata\r\r", "\xef\xbb\xbfdata:x\n\n", "\xefdata:x\n\n", "data\ndata\n\n"} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, in []byte) {
		join := func(parts []part) (raw, seen string) {
			for _, p := range parts {
				raw += p.Raw
				if p.Data != "" || p.Type != "" || p.ID {
					seen += p.Type + "\x00" + p.Data + "\x00"
				}
			}
			return raw, seen
		}
		whole, rest := split(in, max(1, len(in)))
		raw, seen := join(whole)
		if raw+rest != string(in) {
			t.Errorf("%q became %q", in, raw+rest)
		}
		for _, piece := range []int{1, 2, 3} {
			pieces, left := split(in, piece)
			if all, slow := join(pieces); slow != seen || all+left != string(in) {
				t.Errorf("%q became %q in pieces of %d, %q at once", in, slow, piece, seen)
			}
		}
		var out bytes.Buffer
		if _, err := (Message{Data: in}).WriteTo(&out); err != nil {
			t.Fatal(err)
		}
		back, rest := split(out.Bytes(), out.Len())
		if want := strings.ReplaceAll(string(in), "\r", "\n"); len(back) != 1 || rest != "" || back[0].Data != want {
			t.Errorf("%q is written as %q", in, out.Bytes())
		}
	})
}
