package guest

import (
	"bytes"
	"errors"
	"io"
	"net"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/hashicorp/yamux"
)

// writes keeps what is written, write by write.
type writes struct {
	io.ReadWriteCloser
	mu  sync.Mutex
	all [][]byte // guarded by mu
}

func (w *writes) Write(p []byte) (int, error) {
	w.mu.Lock()
	w.all = append(w.all, bytes.Clone(p))
	w.mu.Unlock()
	return w.ReadWriteCloser.Write(p)
}

// Every write is one short frame of yamux's, header and body, and the bytes are the
// same; long ones keep them too.
func TestFramesAreWrittenWhole(t *testing.T) {
	near, far := net.Pipe()
	seen := &writes{ReadWriteCloser: near}
	client, err := yamux.Client(&frameJoiner{ReadWriteCloser: seen}, muxConfig(10*time.Second))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = client.Close() }()
	server, err := yamux.Server(&frameJoiner{ReadWriteCloser: far}, muxConfig(10*time.Second))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = server.Close() }()
	sent := bytes.Repeat([]byte("0123456789"), 100<<10)
	go func() {
		stream, err := client.Open()
		if err != nil {
			return
		}
		for part := range slices.Chunk(sent[:len(sent)/2], 777) {
			_, _ = stream.Write(part)
		}
		_, _ = stream.Write(sent[len(sent)/2:])
		_ = stream.Close()
	}()
	stream, err := server.Accept()
	if err != nil {
		t.Fatal(err)
	}
	got, err := io.ReadAll(stream)
	if err != nil || !bytes.Equal(got, sent) {
		t.Fatalf("%d bytes of %d came, %v", len(got), len(sent), err)
	}
	seen.mu.Lock()
	defer seen.mu.Unlock()
	joined := 0
	for _, frame := range seen.all {
		if len(frame) > muxHeaderSize && len(frame) <= muxHeaderSize+777 {
			g := newGuard(nil, ignore)
			if used := g.consume(frame); used == muxHeaderSize && int(g.payload) == len(frame)-muxHeaderSize {
				joined++
			}
		}
	}
	if want := len(sent) / 2 / 777; joined < want {
		t.Errorf("%d of at least %d short frames were written whole", joined, want)
	}
}

// broken takes nothing.
type broken struct{ io.ReadWriteCloser }

func (broken) Write([]byte) (int, error) { return 0, errBroken }

var errBroken = errors.New("broken")

// A frame that cannot be written is told where its body is written, and none of it
// goes out with the next.
func TestWriteThatFails(t *testing.T) {
	var out bytes.Buffer
	w := &frameJoiner{ReadWriteCloser: broken{}}
	header := []byte{0, muxData, 0, 0, 0, 0, 0, 1, 0, 0, 0, 3}
	if n, err := w.Write(header); n != len(header) || err != nil {
		t.Errorf("header: %d, %v", n, err)
	}
	if n, err := w.Write([]byte("abc")); n != 0 || !errors.Is(err, errBroken) {
		t.Errorf("body: %d, %v", n, err)
	}
	w.ReadWriteCloser = struct {
		io.Reader
		io.Writer
		io.Closer
	}{nil, &out, nil}
	ping := []byte{0, muxPing, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0}
	if _, err := w.Write(ping); err != nil || !bytes.Equal(out.Bytes(), ping) {
		t.Errorf("after it: %q, %v", out.Bytes(), err)
	}
}
