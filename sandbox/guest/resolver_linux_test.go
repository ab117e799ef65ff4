package guest

import (
	"encoding/binary"
	"encoding/json"
	"io"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/net/dns/dnsmessage"
)

// TestResolver asks over UDP and TCP, several on one connection and garbage among
// them, and looks at what the runner is told.
func TestResolver(t *testing.T) {
	near, far := net.Pipe()
	r := newResolver(linkOf(near), names())
	packets, err := net.ListenPacket("udp", "127.0.0.1:0")
	must(t, err)
	streams, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	var reported []string
	var serving sync.WaitGroup
	serving.Go(func() { r.servePackets(packets) })
	serving.Go(func() { r.serveStreams(streams) })
	serving.Go(r.tell)
	told := make(chan struct{}, 3)
	serving.Go(func() { reported = hearNames(far, told) })

	udp, err := net.Dial("udp", packets.LocalAddr().String())
	must(t, err)
	must(t, udp.SetDeadline(time.Now().Add(10*time.Second)))
	for _, bytes := range [][]byte{[]byte("garbage"), query(t, "github.", dnsmessage.TypeA)} {
		_, err := udp.Write(bytes)
		must(t, err)
	}
	buf := make([]byte, 512)
	n, err := udp.Read(buf)
	must(t, err)
	checkReply(t, buf[:n], dnsmessage.RCodeSuccess)

	tcp, err := net.Dial("tcp", streams.Addr().String())
	must(t, err)
	must(t, tcp.SetDeadline(time.Now().Add(10*time.Second)))
	for range 2 {
		question := query(t, "example.com.", dnsmessage.TypeA)
		_, err := tcp.Write(append(binary.BigEndian.AppendUint16(nil, uint16(len(question))), question...))
		must(t, err)
		_, err = io.ReadFull(tcp, buf[:2])
		must(t, err)
		answer := make([]byte, binary.BigEndian.Uint16(buf))
		_, err = io.ReadFull(tcp, answer)
		must(t, err)
		checkReply(t, answer, dnsmessage.RCodeNameError)
	}
	_, err = tcp.Write([]byte{0, 3, 'b', 'a', 'd'})
	must(t, err)
	if n, err := tcp.Read(buf); err != io.EOF {
		t.Errorf("after a bad question: %d bytes, %v", n, err)
	}

	// The runner is told beside the answers.
	for range cap(told) {
		select {
		case <-told:
		case <-time.After(10 * time.Second):
			t.Error("a question was not told within 10s")
		}
	}
	close(r.done)
	_, _, _, _ = packets.Close(), streams.Close(), udp.Close(), tcp.Close()
	_ = near.Close()
	serving.Wait()
	if want := []string{"github", "example.com", "example.com"}; !slices.Equal(reported, want) {
		t.Errorf("told of %q", reported)
	}
}

// hearNames are the names of all questions that are told on a stream, until it ends; it sends on
// told, if there is room, when it has heard one.
func hearNames(stream net.Conn, told chan<- struct{}) (names []string) {
	for l := linkOf(stream); ; {
		_, p, err := l.message()
		if err != nil {
			return names
		}
		var q Question
		if json.Unmarshal(p, &q) == nil {
			names = append(names, q.Name)
			select {
			case told <- struct{}{}:
			default:
			}
		}
	}
}

func checkReply(t *testing.T, packed []byte, want dnsmessage.RCode) {
	t.Helper()
	var got dnsmessage.Message
	must(t, got.Unpack(packed))
	if got.RCode != want {
		t.Errorf("got %s", got.GoString())
	}
}

// TestEveryQuestionIsReported floods the resolver: what is answered is told, and what would
// be told too fast waits for its answer until the end.
func TestEveryQuestionIsReported(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		near, far := net.Pipe()
		r := newResolver(linkOf(near), names())
		var reported []string
		var working sync.WaitGroup
		working.Go(r.tell)
		working.Go(func() { reported = hearNames(far, nil) })
		var answered atomic.Int64
		question := query(t, "x.example.", dnsmessage.TypeA)
		for range 10 * questionRate {
			working.Go(func() {
				if r.answer(question) != nil {
					answered.Add(1)
				}
			})
		}
		time.Sleep(2 * time.Second)
		synctest.Wait()
		close(r.done)
		_ = near.Close()
		working.Wait()
		most := int64(3*questionRate + 1) // at once, in two seconds, and the one that waits
		if n := answered.Load(); n < questionRate || n > most || int64(len(reported)) < n-1 {
			t.Errorf("%d were answered, of which %d were told", n, len(reported))
		}
	})
}
