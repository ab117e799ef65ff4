package guest

import (
	"bytes"
	"errors"
	"io"
	"net"
	"strings"
	"testing"
	"testing/iotest"
	"testing/synctest"
	"time"
)

// streamOf is a stream that reads what r gives and takes everything.
type streamOf struct {
	io.Reader
	net.Conn // unused
}

func (s streamOf) Read(p []byte) (int, error) { return s.Reader.Read(p) }

// FuzzLink checks that a stream of any bytes, in any pieces, is read as the same
// messages, none longer than allowed, and ends in an error.
func FuzzLink(f *testing.F) {
	f.Add([]byte{byte(kindData), 0, 0, 0, 2, 'h', 'i', byte(kindEOF), 0, 0, 0, 0})
	f.Add([]byte{byte(kindData), 0xff, 0, 0, 0})
	f.Add([]byte{byte(kindRequest), 0, 0, 0, 2, '{', '}'})
	f.Fuzz(func(t *testing.T, in []byte) {
		read := func(r io.Reader) (all []byte, end error) {
			l := linkOf(streamOf{Reader: r})
			for {
				k, p, err := l.message()
				if err != nil {
					return all, err
				}
				if len(p) > maxRequest || len(p) > maxPayload && k != kindRequest {
					t.Fatalf("%d bytes of kind %d", len(p), k)
				}
				all = append(append(all, byte(k)), p...)
			}
		}
		whole, end := read(bytes.NewReader(in))
		pieces, pieceEnd := read(iotest.OneByteReader(bytes.NewReader(in)))
		if !bytes.Equal(whole, pieces) || errors.Is(end, ErrProtocol) != errors.Is(pieceEnd, ErrProtocol) {
			t.Fatalf("%q, %v; in pieces %q, %v", whole, end, pieces, pieceEnd)
		}
	})
}

func TestReply(t *testing.T) {
	tests := map[string]struct {
		kind kind
		text string
		want any // the error's class
	}{
		"a reason":      {kindError, "no such thing", new(Refused)},
		"no JSON":       {kindReply, "{", ErrProtocol},
		"another shape": {kindReply, `{"pid":"x"}`, ErrProtocol},
		"another kind":  {kindExit, "{}", ErrProtocol},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			near, far := net.Pipe()
			go func() { _ = linkOf(far).write(test.kind, []byte(test.text)) }()
			_, err := linkOf(near).reply()
			switch want := test.want.(type) {
			case *Refused:
				if !errors.As(err, want) || string(*want) != test.text {
					t.Errorf("got %v", err)
				}
			case error:
				if !errors.Is(err, want) {
					t.Errorf("got %v", err)
				}
			}
			must(t, errors.Join(near.Close(), far.Close()))
		})
	}
}

// TestWritesResume cuts a write short at each byte: what is left goes out first
// of all when the next one can.
func TestWritesResume(t *testing.T) {
	for cut := range 2*headerSize + 5 {
		var out bytes.Buffer
		stream := &cutting{out: &out, left: cut}
		l := linkOf(stream)
		if err := l.write(kindData, []byte("hello")); (err != nil) != (cut < headerSize+5) {
			t.Fatalf("cut at %d: %v", cut, err)
		}
		stream.left = 1000
		must(t, l.write(kindEOF, nil))
		got, want := out.String(), "\x04\x00\x00\x00\x05hello\x06\x00\x00\x00\x00"
		if got != want {
			t.Errorf("cut at %d: %q", cut, got)
		}
	}
}

type cutting struct {
	net.Conn
	out  *bytes.Buffer
	left int
}

func (c *cutting) Write(p []byte) (int, error) {
	n, _ := c.out.Write(p[:min(len(p), c.left)])
	if c.left -= n; n < len(p) {
		return n, errFull
	}
	return n, nil
}

func TestLongReasonsAreCut(t *testing.T) {
	var out bytes.Buffer
	l := linkOf(&cutting{out: &out, left: 1 << 30})
	must(t, l.fail(errors.New(strings.Repeat("x", 2*maxPayload))))
	if out.Len() != headerSize+maxPayload {
		t.Errorf("%d bytes", out.Len())
	}
}

// A second's questions have their turn at once, and the next wait for it, no longer than
// somebody wants it.
func TestAwait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		pace, done, began := questionPace(), make(chan struct{}), time.Now()
		for range questionRate {
			if !waitTurn(pace, done) || time.Since(began) != 0 {
				t.Fatalf("waited %s", time.Since(began))
			}
		}
		if !waitTurn(pace, done) || time.Since(began) != time.Second/questionRate {
			t.Errorf("the next came after %s", time.Since(began))
		}
		close(done)
		if waitTurn(pace, done) || time.Since(began) != time.Second/questionRate {
			t.Errorf("waited until %s for nobody", time.Since(began))
		}
	})
}
