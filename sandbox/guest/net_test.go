package guest

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"sync"
	"syscall"
	"testing"
	"time"
)

func listen(t *testing.T, g *Guest) net.Listener {
	t.Helper()
	ln, err := g.Listen(t.Context(), "127.0.0.1:0")
	must(t, err)
	t.Cleanup(func() { _ = ln.Close() })
	return ln
}

// TestServeHTTP has net/http serve on a guest's listener, which needs deadlines
// that interrupt a read and lose nothing.
func TestServeHTTP(t *testing.T) { overBoth(t, testServeHTTP) }

func testServeHTTP(t *testing.T, g *Guest) {
	ln := listen(t, g)
	server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		_, _ = fmt.Fprintf(w, "%d %s", len(body), r.Host)
	}), ReadHeaderTimeout: 10 * time.Second}
	var serving sync.WaitGroup
	serving.Go(func() { _ = server.Serve(ln) })
	client := &http.Client{Transport: &http.Transport{}}
	var asking sync.WaitGroup
	for i := range 50 {
		asking.Go(func() {
			body := bytes.Repeat([]byte("x"), i*10_000)
			response, err := client.Post("http://"+ln.Addr().String()+"/", "text/plain", bytes.NewReader(body))
			if err != nil {
				t.Error(err)
				return
			}
			got, err := io.ReadAll(response.Body)
			_ = response.Body.Close()
			if want := fmt.Sprintf("%d %s", len(body), ln.Addr()); err != nil || string(got) != want {
				t.Errorf("got %q, %v, want %q", got, err, want)
			}
		})
	}
	asking.Wait()
	client.CloseIdleConnections()
	must(t, server.Close())
	serving.Wait()
}

func TestConnectionsCarryEnds(t *testing.T) { overBoth(t, testConnectionsCarryEnds) }

func testConnectionsCarryEnds(t *testing.T, g *Guest) {
	ln := listen(t, g)
	outside, err := net.Dial("tcp", ln.Addr().String())
	must(t, err)
	defer func() { _ = outside.Close() }()
	inside, err := ln.Accept()
	must(t, err)
	defer func() { _ = inside.Close() }()
	if inside.RemoteAddr().String() != outside.LocalAddr().String() {
		t.Errorf("peer is told as %s, is %s", inside.RemoteAddr(), outside.LocalAddr())
	}
	_, err = outside.Write([]byte("question"))
	must(t, err)
	must(t, outside.(*net.TCPConn).CloseWrite())
	got, err := io.ReadAll(inside)
	must(t, err)
	if string(got) != "question" {
		t.Errorf("got %q", got)
	}
	_, err = inside.Write([]byte("answer"))
	must(t, err)
	must(t, inside.Close())
	if got, err := io.ReadAll(outside); err != nil || string(got) != "answer" {
		t.Errorf("got %q, %v", got, err)
	}
}

func TestConnectionsCarryResets(t *testing.T) { overBoth(t, testConnectionsCarryResets) }

func testConnectionsCarryResets(t *testing.T, g *Guest) {
	ln := listen(t, g)
	outside, err := net.Dial("tcp", ln.Addr().String())
	must(t, err)
	inside, err := ln.Accept()
	must(t, err)
	defer func() { _ = inside.Close() }()
	must(t, outside.(*net.TCPConn).SetLinger(0))
	must(t, outside.Close())
	within(t, 10*time.Second, "reset", func() {
		if _, err := io.ReadAll(inside); !errors.Is(err, syscall.ECONNRESET) {
			t.Errorf("got %v", err)
		}
	})
}

func TestReadDeadlinesLoseNothing(t *testing.T) { overBoth(t, testReadDeadlinesLoseNothing) }

func testReadDeadlinesLoseNothing(t *testing.T, g *Guest) {
	ln := listen(t, g)
	outside, err := net.Dial("tcp", ln.Addr().String())
	must(t, err)
	defer func() { _ = outside.Close() }()
	inside, err := ln.Accept()
	must(t, err)
	defer func() { _ = inside.Close() }()
	must(t, inside.SetReadDeadline(time.Now().Add(-time.Second)))
	var timeout net.Error
	if _, err := inside.Read(make([]byte, 1)); !errors.As(err, &timeout) || !timeout.Timeout() {
		t.Fatalf("got %v", err)
	}
	must(t, inside.SetReadDeadline(time.Time{}))
	_, err = outside.Write([]byte("late"))
	must(t, err)
	got := make([]byte, 4)
	if _, err := io.ReadFull(inside, got); err != nil || string(got) != "late" {
		t.Errorf("got %q, %v", got, err)
	}
}

func TestDial(t *testing.T) { overBoth(t, testDial) }

func testDial(t *testing.T, g *Guest) {
	echo, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	var serving sync.WaitGroup
	serving.Go(func() {
		for {
			conn, err := echo.Accept()
			if err != nil {
				return
			}
			serving.Go(func() {
				_, _ = io.Copy(conn, conn)
				_ = conn.Close()
			})
		}
	})
	defer serving.Wait()
	defer func() { _ = echo.Close() }()

	conn, err := g.Dial(t.Context(), echo.Addr().String())
	must(t, err)
	sent := bytes.Repeat([]byte("0123456789"), 500_000)
	go func() {
		_, _ = conn.Write(sent)
		_ = conn.(interface{ CloseWrite() error }).CloseWrite()
	}()
	got, err := io.ReadAll(conn)
	must(t, err)
	if !bytes.Equal(got, sent) {
		t.Errorf("%d of %d bytes came back", len(got), len(sent))
	}
	must(t, conn.Close())
	if _, err := g.Dial(t.Context(), "127.0.0.1:1"); err == nil {
		t.Error("connected where nobody listens")
	}
}

func TestListenerEnds(t *testing.T) { overBoth(t, testListenerEnds) }

func testListenerEnds(t *testing.T, g *Guest) {
	ln := listen(t, g)
	must(t, ln.Close())
	must(t, ln.Close())
	if _, err := ln.Accept(); !errors.Is(err, net.ErrClosed) {
		t.Errorf("got %v", err)
	}
	within(t, 10*time.Second, "the guest stops listening", func() {
		for {
			conn, err := net.Dial("tcp", ln.Addr().String())
			if err != nil {
				return
			}
			_ = conn.Close()
		}
	})
	if _, err := g.Listen(t.Context(), "192.0.2.200:80"); err == nil {
		t.Error("listens on an address that is not there")
	}
}
