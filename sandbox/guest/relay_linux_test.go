package guest

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"sync"
	"testing"
	"time"

	"golang.org/x/net/nettest"
)

// TestConnIsANetConn holds both ends of a connection to the rules of net.Conn.
func TestConnIsANetConn(t *testing.T) { overBoth(t, testConnIsANetConn) }

func testConnIsANetConn(t *testing.T, g *Guest) {
	ln := listen(t, g)
	pair := func() (outside, inside net.Conn, stop func(), err error) {
		if outside, err = net.Dial("tcp", ln.Addr().String()); err != nil {
			return nil, nil, nil, err
		}
		if inside, err = ln.Accept(); err != nil {
			return nil, nil, nil, err
		}
		return outside, inside, func() { _, _ = outside.Close(), inside.Close() }, nil
	}
	t.Run("inside", func(t *testing.T) {
		nettest.TestConn(t, func() (net.Conn, net.Conn, func(), error) {
			outside, inside, stop, err := pair()
			return inside, outside, stop, err
		})
	})
	t.Run("outside", func(t *testing.T) { nettest.TestConn(t, pair) })
}

// TestManyConnections opens more of them than a guest may carry at once: the rest
// wait their turn.
func TestManyConnections(t *testing.T) { overBoth(t, testManyConnections) }

func testManyConnections(t *testing.T, g *Guest) {
	ln := listen(t, g)
	var serving, asking sync.WaitGroup
	serving.Go(func() {
		for {
			conn, err := ln.Accept()
			if err != nil {
				return
			}
			serving.Go(func() {
				_, _ = io.Copy(conn, conn)
				_ = conn.Close()
			})
		}
	})
	for i := range 200 {
		asking.Go(func() {
			conn, err := net.Dial("tcp", ln.Addr().String())
			if err != nil {
				t.Error(err)
				return
			}
			defer func() { _ = conn.Close() }()
			_, _ = fmt.Fprintf(conn, "%d\n", i)
			_ = conn.(*net.TCPConn).CloseWrite()
			if got, err := io.ReadAll(conn); err != nil || string(got) != fmt.Sprintf("%d\n", i) {
				t.Errorf("%d: got %q, %v", i, got, err)
			}
		})
	}
	asking.Wait()
	must(t, ln.Close())
	serving.Wait()
	must(t, g.Err())
}

// TestListenersShareTheLimit checks that an honest guest stays below what the
// guard allows, however many listeners it has.
func TestListenersShareTheLimit(t *testing.T) { overBoth(t, testListenersShareTheLimit) }

func testListenersShareTheLimit(t *testing.T, g *Guest) {
	listeners := []net.Listener{listen(t, g), listen(t, g)}
	accepted := make(chan net.Conn)
	var accepting sync.WaitGroup
	for _, ln := range listeners {
		for range maxConns {
			conn, err := net.Dial("tcp", ln.Addr().String())
			must(t, err)
			defer func() { _ = conn.Close() }()
		}
		accepting.Go(func() {
			for {
				conn, err := ln.Accept()
				if err != nil {
					return
				}
				accepted <- conn
			}
		})
	}
	held := make([]net.Conn, 0, 2*maxConns)
	next := func() {
		select {
		case conn := <-accepted:
			held = append(held, conn)
		case <-g.Done():
			t.Fatalf("with %d connections: %v", len(held), g.Err())
		}
	}
	for len(held) < maxConns {
		next()
	}
	if _, err := g.call(t.Context(), request{Verb: "hello"}); err != nil {
		t.Errorf("the session ended: %v, %v", err, g.Err())
	}
	for i := range maxConns { // each that ends lets the next one in
		must(t, held[i].Close())
		next()
	}
	for _, conn := range held {
		_ = conn.Close()
	}
	for _, ln := range listeners {
		must(t, ln.Close())
	}
	accepting.Wait()
}

// TestHTTPServerSeesTheClientGo needs reads beside a handler that are ended and
// resumed: for the end of a client, and for a handler that takes the connection.
func TestHTTPServerSeesTheClientGo(t *testing.T) { overBoth(t, testHTTPServerSeesTheClientGo) }

func testHTTPServerSeesTheClientGo(t *testing.T, g *Guest) {
	ln := listen(t, g)
	gone := make(chan struct{})
	mux := http.NewServeMux()
	mux.HandleFunc("/wait", func(w http.ResponseWriter, r *http.Request) {
		w.(http.Flusher).Flush()
		<-r.Context().Done()
		close(gone)
	})
	mux.HandleFunc("/take", func(w http.ResponseWriter, r *http.Request) {
		conn, buf, err := w.(http.Hijacker).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		defer func() { _ = conn.Close() }()
		line, err := buf.ReadString('\n')
		_, _ = fmt.Fprintf(conn, "%s%v\n", line, err)
	})
	server := &http.Server{Handler: mux, ReadHeaderTimeout: 50 * time.Millisecond}
	var serving sync.WaitGroup
	serving.Go(func() { _ = server.Serve(ln) })
	defer serving.Wait()
	defer func() { _ = server.Close() }()

	open := func(path string) (net.Conn, *bufio.Reader) {
		conn, err := net.Dial("tcp", ln.Addr().String())
		must(t, err)
		_, err = fmt.Fprintf(conn, "GET %s HTTP/1.1\r\nHost: x\r\n\r\n", path)
		must(t, err)
		return conn, bufio.NewReader(conn)
	}

	conn, reader := open("/wait")
	_, err := reader.ReadString('\n') // the answer has begun
	must(t, err)
	must(t, conn.Close())
	within(t, 10*time.Second, "the handler", func() { <-gone })

	conn, reader = open("/take")
	_, err = io.WriteString(conn, "mine\n")
	must(t, err)
	if got, err := io.ReadAll(reader); err != nil || string(got) != "mine\n<nil>\n" {
		t.Errorf("got %q, %v", got, err)
	}
	must(t, conn.Close())

	conn, err = net.Dial("tcp", ln.Addr().String()) // says nothing
	must(t, err)
	if _, err := io.ReadAll(conn); err != nil {
		t.Errorf("got %v", err)
	}
	must(t, conn.Close())
}

// TestCloseWaitsForNobody closes a connection whose peer takes nothing.
func TestCloseWaitsForNobody(t *testing.T) { overBoth(t, testCloseWaitsForNobody) }

func testCloseWaitsForNobody(t *testing.T, g *Guest) {
	ln := listen(t, g)
	outside, err := net.Dial("tcp", ln.Addr().String())
	must(t, err)
	defer func() { _ = outside.Close() }()
	inside, err := ln.Accept()
	must(t, err)
	var writing sync.WaitGroup
	writing.Go(func() {
		if _, err := inside.Write(make([]byte, 64<<20)); err == nil {
			t.Error("64 MB fit where nobody reads")
		}
	})
	_, err = io.ReadFull(outside, make([]byte, 1))
	must(t, err)
	within(t, 20*time.Second, "close", func() { _ = inside.Close(); writing.Wait() })
	if _, err := io.Copy(io.Discard, outside); err == nil {
		t.Error("what was cut short looks whole")
	}
}
