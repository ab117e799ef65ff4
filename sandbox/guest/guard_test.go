package guest

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"testing"
	"testing/iotest"
)

// muxHeader is one yamux header.
func muxHeader(version, frame byte, flags uint16, stream, length uint32) []byte {
	h := make([]byte, muxHeaderSize)
	h[0], h[1] = version, frame
	binary.BigEndian.PutUint16(h[2:], flags)
	binary.BigEndian.PutUint32(h[4:], stream)
	binary.BigEndian.PutUint32(h[8:], length)
	return h
}

// repeat makes n headers with streams of their own.
func repeat(n int, header func(i int) []byte) []byte {
	var all []byte
	for i := range n {
		all = append(all, header(i)...)
	}
	return all
}

func data(stream uint32, payload []byte) []byte {
	return append(muxHeader(0, muxData, 0, stream, uint32(len(payload))), payload...)
}

type bytePipe struct{ io.Reader }

func (bytePipe) Write(p []byte) (int, error) { return len(p), nil }
func (bytePipe) Close() error                { return nil }

func ignore(error) {}

func TestGuard(t *testing.T) {
	open := func(i int) []byte { return muxHeader(0, muxWindowUpdate, muxSYN, uint32(2*i+2), 0) }
	tests := map[string]struct {
		bytes []byte
		bad   bool
	}{
		"data":                    {data(1, bytes.Repeat([]byte("x"), maxMuxFrame)), false},
		"a frame too long":        {muxHeader(0, muxData, 0, 1, maxMuxFrame+1), true},
		"a version":               {muxHeader(1, muxData, 0, 1, 0), true},
		"a type":                  {muxHeader(0, 4, 0, 1, 0), true},
		"streams":                 {repeat(maxInbound, open), false},
		"one stream too many":     {repeat(maxInbound+1, open), true},
		"streams one by one":      {repeat(300, func(i int) []byte { return append(open(i), muxHeader(0, muxData, muxFIN, uint32(2*i+2), 0)...) }), false},
		"streams too fast":        {repeat(inboundBurst*3, func(i int) []byte { return append(open(i), muxHeader(0, muxData, muxRST, uint32(2*i+2), 0)...) }), true},
		"a few pings":             {repeat(pingBurst, func(i int) []byte { return muxHeader(0, muxPing, muxSYN, 0, uint32(i)) }), false},
		"a flood of pings":        {repeat(pingBurst*3, func(i int) []byte { return muxHeader(0, muxPing, muxSYN, 0, uint32(i)) }), true},
		"answers to pings":        {repeat(1000, func(i int) []byte { return muxHeader(0, muxPing, 2, 0, uint32(i)) }), false},
		"a flood of answers":      {repeat(emptyBurst*3, func(i int) []byte { return muxHeader(0, muxPing, 2, 0, uint32(i)) }), true},
		"a flood of empty data":   {repeat(emptyBurst*3, func(int) []byte { return muxHeader(0, muxData, 0, 1, 0) }), true},
		"a flood of windows":      {repeat(emptyBurst*3, func(int) []byte { return muxHeader(0, muxWindowUpdate, 0, 1, maxMuxFrame) }), true},
		"a flood of ends":         {repeat(emptyBurst*3, func(int) []byte { return muxHeader(0, muxWindowUpdate, muxFIN, 1, 0) }), true},
		"many small data":         {repeat(emptyBurst*3, func(int) []byte { return data(1, []byte("x")) }), false},
		"the runner's own stream": {muxHeader(0, muxWindowUpdate, muxSYN, 3, 0), true},
		"the session's stream":    {muxHeader(0, muxWindowUpdate, muxSYN, 0, 0), true},
		"a header within bytes":   {data(1, muxHeader(9, 9, 9, 9, 9)), false},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			for _, pipe := range []io.Reader{bytes.NewReader(test.bytes), iotest.OneByteReader(bytes.NewReader(test.bytes))} {
				got, err := io.ReadAll(newGuard(bytePipe{pipe}, ignore))
				if bad := errors.Is(err, ErrProtocol); bad != test.bad {
					t.Errorf("got %v", err)
				}
				if !bytes.HasPrefix(test.bytes, got) || !test.bad && len(got) != len(test.bytes) {
					t.Errorf("%d of %d bytes came through", len(got), len(test.bytes))
				}
			}
		})
	}
}

func TestGuardPasses100MB(t *testing.T) {
	frame := data(1, make([]byte, maxMuxFrame))
	var frames []io.Reader
	for range 400 {
		frames = append(frames, bytes.NewReader(frame))
	}
	n, err := io.Copy(io.Discard, newGuard(bytePipe{io.MultiReader(frames...)}, ignore))
	if want := int64(400 * len(frame)); n != want || err != nil {
		t.Errorf("%d of %d bytes, %v", n, want, err)
	}
}

// What the runner writes may be answered by as many frames without payload, however fast.
func TestGuardPassesAnswers(t *testing.T) {
	const writes = 100_000
	frames := repeat(writes, func(int) []byte { return muxHeader(0, muxWindowUpdate, 0, 1, maxMuxFrame/2) })
	g := newGuard(bytePipe{bytes.NewReader(frames)}, ignore)
	for range writes {
		_, err := g.Write(nil)
		must(t, err)
	}
	if n, err := io.Copy(io.Discard, g); n != int64(len(frames)) || err != nil {
		t.Errorf("%d of %d bytes, %v", n, len(frames), err)
	}
}

// FuzzGuard checks that whatever comes, what is let through is a prefix of it and
// breaks no rule, and that nothing comes after the first error.
func FuzzGuard(f *testing.F) {
	f.Add(data(1, []byte("hello")), uint8(3))
	f.Add(muxHeader(0, muxPing, muxSYN, 0, 1), uint8(1))
	f.Add(muxHeader(0, muxData, muxSYN|muxFIN, 2, 0), uint8(12))
	f.Fuzz(func(t *testing.T, in []byte, chunk uint8) {
		g := newGuard(bytePipe{bytes.NewReader(in)}, ignore)
		var got []byte
		buf := make([]byte, int(chunk)+1)
		for {
			n, err := g.Read(buf)
			got = append(got, buf[:n]...)
			if err != nil {
				if n, again := g.Read(buf); n > 0 || again == nil {
					t.Fatalf("%d bytes and %v after %v", n, again, err)
				}
				break
			}
		}
		if !bytes.HasPrefix(in, got) {
			t.Fatal("other bytes came through")
		}
		for rest := got; len(rest) >= muxHeaderSize; {
			length := binary.BigEndian.Uint32(rest[8:])
			if rest[0] != 0 || rest[1] > muxGoAway || rest[1] == muxData && length > maxMuxFrame {
				t.Fatalf("header %x came through", rest[:muxHeaderSize])
			}
			used := muxHeaderSize
			if rest[1] == muxData {
				used += int(length)
			}
			rest = rest[min(used, len(rest)):]
		}
	})
}
