package guest

import (
	"encoding/binary"
	"encoding/json"
	"io"
	"net"
	"slices"
	"sync"
	"testing"
	"time"

	"golang.org/x/net/dns/dnsmessage"
)

// TestResolver asks over UDP and TCP, several on one connection and garbage among
// them, and looks at what the runner is told.
func TestResolver(t *testing.T) {
	near, far := net.Pipe()
	r := newResolver(&link{stream: near}, names())
	packets, err := net.ListenPacket("udp", "127.0.0.1:0")
	must(t, err)
	streams, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	done := make(chan struct{})
	var serving sync.WaitGroup
	serving.Go(func() { r.servePackets(packets) })
	serving.Go(func() { r.serveStreams(streams) })
	serving.Go(func() { r.tell(done) })

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

	var told []string
	for l := (&link{stream: far}); len(told) < 3; {
		_, p, err := l.message()
		must(t, err)
		var q Question
		must(t, json.Unmarshal(p, &q))
		told = append(told, q.Name)
	}
	if want := []string{"github", "example.com", "example.com"}; !slices.Equal(told, want) {
		t.Errorf("told of %q", told)
	}
	close(done)
	_, _, _, _ = packets.Close(), streams.Close(), udp.Close(), tcp.Close()
	_, _ = near.Close(), far.Close()
	serving.Wait()
}

func checkReply(t *testing.T, packed []byte, want dnsmessage.RCode) {
	t.Helper()
	var got dnsmessage.Message
	must(t, got.Unpack(packed))
	if got.RCode != want {
		t.Errorf("got %s", got.GoString())
	}
}

// TestQuestionsAreToldAtABoundedRate floods the resolver: each question is
// answered, and what is not told is counted.
func TestQuestionsAreToldAtABoundedRate(t *testing.T) {
	near, far := net.Pipe()
	r := newResolver(&link{stream: near}, names())
	r.pace = bucket{burst: 3, tokens: 3} // and never more
	done := make(chan struct{})
	var telling sync.WaitGroup
	telling.Go(func() { r.tell(done) })
	question := query(t, "x.example.", dnsmessage.TypeA)
	for range 1000 {
		if r.answer(question) == nil {
			t.Fatal("no answer")
		}
	}
	l := &link{stream: far}
	for range 3 {
		_, _, err := l.message()
		must(t, err)
	}
	must(t, far.SetReadDeadline(time.Now().Add(50*time.Millisecond)))
	if k, _, err := l.message(); err == nil {
		t.Errorf("told once more: kind %d", k)
	}
	close(done)
	telling.Wait()
	_, _ = near.Close(), far.Close()
}
