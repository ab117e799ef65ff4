package guest

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/netip"
	"strings"
	"time"

	"golang.org/x/net/dns/dnsmessage"
	"golang.org/x/time/rate"

	"github.com/waza-isolate/waza/internal/defence"
)

const (
	dnsAddr     = "127.0.0.1:53"
	maxDNSConns = 32
)

// resolve answers DNS queries on loopback, over UDP and TCP, until the session ends.
func resolve(l *link, req request) error {
	r := newResolver(l, req.Names)
	defer close(r.done)
	packets, err := net.ListenPacket("udp", dnsAddr)
	switch {
	case err == nil:
		defer func() { _ = packets.Close() }()
		go r.servePackets(packets)
	case refused(err) != nil: // task networks only carry TCP
		return err
	}
	streams, err := net.Listen("tcp", dnsAddr)
	if err != nil {
		return err
	}
	defer func() { _ = streams.Close() }()
	go r.serveStreams(streams)
	if err := l.writeJSON(kindReply, reply{}); err != nil {
		return err
	}
	go r.tell()
	l.drain()
	return nil
}

type resolver struct {
	names    map[string][]netip.Addr
	link     *link
	reported chan Question // questions, before they are answered
	done     chan struct{}
	pace     *rate.Limiter // used only by tell
}

func newResolver(l *link, names map[string][]netip.Addr) *resolver {
	return &resolver{
		names:    names,
		link:     l,
		reported: make(chan Question),
		done:     make(chan struct{}),
		pace:     questionPace(),
	}
}

func (r *resolver) servePackets(conn net.PacketConn) {
	buf := make([]byte, 4096)
	for {
		n, from, err := conn.ReadFrom(buf)
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil {
			continue
		}
		if answer := r.answer(buf[:n]); answer != nil {
			_, _ = conn.WriteTo(answer, from)
		}
	}
}

func (r *resolver) serveStreams(ln net.Listener) {
	slots := make(chan struct{}, maxDNSConns)
	for {
		slots <- struct{}{}
		conn, err := ln.Accept()
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil {
			<-slots
			time.Sleep(10 * time.Millisecond)
			continue
		}
		go func() {
			defer func() { <-slots }()
			defer func() { _ = conn.Close() }()
			_ = conn.SetDeadline(time.Now().Add(10 * time.Second))
			for r.serveStream(conn) == nil {
			}
		}()
	}
}

// serveStream answers one query of a TCP connection (RFC 1035, section 4.2.2: each message is
// preceded by two bytes with its length).
func (r *resolver) serveStream(conn net.Conn) error {
	var size [2]byte
	if _, err := io.ReadFull(conn, size[:]); err != nil {
		return err
	}
	query := make([]byte, binary.BigEndian.Uint16(size[:]))
	if _, err := io.ReadFull(conn, query); err != nil {
		return err
	}
	answer := r.answer(query)
	if answer == nil {
		return io.EOF
	}
	binary.BigEndian.PutUint16(size[:], uint16(len(answer)))
	_, err := conn.Write(append(size[:], answer...))
	return err
}

// answer returns the reply to a query, or nil if it is invalid. It waits until the question can
// be reported, which limits the rate.
func (r *resolver) answer(query []byte) []byte {
	reply, question, err := answerDNS(query, r.names)
	if err != nil {
		return nil
	}
	select {
	case r.reported <- question:
		return reply
	case <-r.done:
		return nil
	}
}

// tell reports questions to the runner, at a bounded rate, until the session ends.
func (r *resolver) tell() {
	for {
		select {
		case <-r.done:
			return
		case q := <-r.reported:
			if !waitTurn(r.pace, r.done) {
				return
			}
			p, err := json.Marshal(q)
			if err != nil || r.link.write(kindData, p) != nil {
				return
			}
		}
	}
}

// addressesOf looks up a name, or an entry "*.x" for a parent x of it.
func addressesOf(names map[string][]netip.Addr, name string) ([]netip.Addr, bool) {
	addrs, known := names[name]
	for rest, more := name, true; more && !known; {
		if _, rest, more = strings.Cut(rest, "."); more {
			addrs, known = names["*."+rest]
		}
	}
	return addrs, known
}

// answerDNS answers the first question of query from names: with addresses, with an empty
// answer for other record types of a known name, and with NXDOMAIN for other names.
func answerDNS(query []byte, names map[string][]netip.Addr) ([]byte, Question, error) {
	var p dnsmessage.Parser
	header, err := p.Start(query)
	if err != nil || header.Response {
		return nil, Question{}, errors.Join(err, ErrProtocol)
	}
	q, err := p.Question()
	if err != nil {
		return nil, Question{}, err
	}
	name := strings.ToLower(strings.TrimSuffix(q.Name.String(), "."))
	addrs, known := addressesOf(names, name)
	reported := Question{Name: name, Type: strings.TrimPrefix(q.Type.String(), "Type"), Answered: known}

	reply := dnsmessage.Message{
		Header: dnsmessage.Header{
			ID: header.ID, Response: true, Authoritative: true,
			RecursionDesired: header.RecursionDesired, RecursionAvailable: true,
		},
		Questions: []dnsmessage.Question{q},
	}
	if defence.UnknownNamesRefused && !known {
		reply.RCode = dnsmessage.RCodeNameError
	}
	for _, a := range addrs {
		if q.Type == dnsmessage.TypeA && a.Is4() {
			reply.Answers = append(reply.Answers, dnsmessage.Resource{
				Header: dnsmessage.ResourceHeader{Name: q.Name, Type: q.Type, Class: q.Class, TTL: 1},
				Body:   &dnsmessage.AResource{A: a.As4()},
			})
		}
	}
	packed, err := reply.Pack()
	return packed, reported, err
}
