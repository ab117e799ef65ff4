package probe

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"sync"
	"time"
)

const (
	maxPayload  = 256
	maxArrivals = 1000 // reported by one listener; more are dropped
	maxOpen     = 64   // concurrent connections
)

// Payload returns what attacks send: the sender's nonce, the attack, and the destination
// address.
func Payload(a Aims, attack, aim string) string {
	return strings.Join([]string{magic, a.Nonce, attack, aim}, " ") + "\n"
}

const magic = "waza-probe"

func readPayload(line, over string) (Arrival, bool) {
	fields := strings.Fields(line)
	if len(fields) != 4 || fields[0] != magic {
		return Arrival{}, false
	}
	return Arrival{Nonce: fields[1], Attack: fields[2], Aim: fields[3], Over: over}, true
}

// watch listens on every address, over TCP and, if possible, UDP, and reports arrivals until stdin
// ends. It echoes what it receives over TCP.
func watch(stdin io.Reader, stdout io.Writer) error {
	mark()
	w := &watcher{out: json.NewEncoder(stdout), open: make(chan struct{}, maxOpen)}
	var here Place
	here.TCP4, here.TCP6 = w.stream("tcp4"), w.stream("tcp6")
	here.UDP4, here.UDP6 = w.packets("udp4"), w.packets("udp6")
	if here.TCP4 == 0 {
		return errors.New("cannot listen: no TCP socket")
	}
	here.Addrs, here.Resolvers = ownAddrs(), resolvers()
	if err := w.out.Encode(here); err != nil {
		return err
	}
	_, err := io.Copy(io.Discard, stdin)
	for _, c := range w.closers {
		_ = c.Close()
	}
	w.serving.Wait()
	return err
}

type watcher struct {
	closers []io.Closer
	serving sync.WaitGroup
	open    chan struct{}

	mu       sync.Mutex
	reported int           // guarded by mu
	out      *json.Encoder // guarded by mu
}

func (w *watcher) tell(line, over string) {
	a, ok := readPayload(line, over)
	if !ok {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.reported++; w.reported <= maxArrivals {
		_ = w.out.Encode(a)
	}
}

// stream listens for connections on a free port and returns it, or 0 if that fails.
func (w *watcher) stream(network string) int {
	ln, err := net.Listen(network, ":0")
	if err != nil {
		return 0
	}
	w.closers = append(w.closers, ln)
	w.serving.Go(func() {
		for {
			conn, err := ln.Accept()
			if err != nil {
				return
			}
			select {
			case w.open <- struct{}{}:
			default:
				_ = conn.Close()
				continue
			}
			w.serving.Go(func() {
				defer func() { _ = conn.Close(); <-w.open }()
				_ = conn.SetDeadline(time.Now().Add(patience))
				line, _ := bufio.NewReader(io.LimitReader(conn, maxPayload)).ReadString('\n')
				w.tell(line, network)
				_, _ = io.WriteString(conn, line)
			})
		}
	})
	return ln.Addr().(*net.TCPAddr).Port
}

// packets listens for datagrams on a free port and returns it, or 0 if that fails.
func (w *watcher) packets(network string) int {
	conn, err := net.ListenPacket(network, ":0")
	if err != nil {
		return 0
	}
	w.closers = append(w.closers, conn)
	w.serving.Go(func() {
		buf := make([]byte, maxPayload)
		for {
			n, _, err := conn.ReadFrom(buf)
			if err != nil {
				return
			}
			w.tell(string(buf[:n]), network)
		}
	})
	return conn.LocalAddr().(*net.UDPAddr).Port
}

// ownAddrs returns every address of this machine except those of loopback.
func ownAddrs() []string {
	all, _ := net.InterfaceAddrs()
	var addrs []string
	for _, a := range all {
		if ip, ok := a.(*net.IPNet); ok && !ip.IP.IsLoopback() {
			addrs = append(addrs, ip.IP.String())
		}
	}
	return addrs
}

func resolvers() []string {
	content, _ := os.ReadFile("/etc/resolv.conf")
	var found []string
	for line := range strings.Lines(string(content)) {
		if fields := strings.Fields(line); len(fields) > 1 && fields[0] == "nameserver" && !net.ParseIP(fields[1]).IsLoopback() {
			found = append(found, fields[1])
		}
	}
	return found
}

// knock sends to every address of the host as an attack would. It runs outside of any sandbox, so
// the host's listener must receive it.
func knock(a Aims) error {
	a.attack = Control
	var errs []error
	for _, aim := range a.Host.over(4) {
		errs = append(errs, sendTo(a, "tcp", aim, a.Host.TCP4), sendTo(a, "udp", aim, a.Host.UDP4))
	}
	for _, aim := range a.Host.over(6) {
		if !isLinkLocal(aim) {
			errs = append(errs, sendTo(a, "tcp", aim, a.Host.TCP6))
		}
	}
	if err := errors.Join(errs...); err != nil {
		fmt.Fprintln(os.Stderr, err)
	}
	return nil
}

func sendTo(a Aims, network, aim string, port int) error {
	if port == 0 {
		return nil
	}
	conn, err := net.DialTimeout(network, net.JoinHostPort(aim, fmt.Sprint(port)), patience)
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close() }()
	_, err = conn.Write([]byte(Payload(a, a.attack, aim)))
	return err
}

func isLinkLocal(addr string) bool { return net.ParseIP(addr).IsLinkLocalUnicast() }

// over returns the addresses of a version of IP.
func (p Place) over(version int) []string {
	var found []string
	for _, addr := range p.Addrs {
		if ip := net.ParseIP(addr); ip != nil && (ip.To4() != nil) == (version == 4) {
			found = append(found, addr)
		}
	}
	return found
}
