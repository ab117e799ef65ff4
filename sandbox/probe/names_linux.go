package probe

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"sync"
	"time"

	"golang.org/x/net/dns/dnsmessage"
	"golang.org/x/sys/unix"
)

// resolverOfEngine is the address of Docker's DNS server in a container.
const resolverOfEngine = "127.0.0.11"

func nameAttempts() []attempt {
	return []attempt{
		{"dns-foreign", func(ctx context.Context, a Aims) result {
			return a.resolveAll(ctx, []string{"127.0.0.1"}, a.Names, false)
		}},
		{"dns-engine", func(ctx context.Context, a Aims) result {
			return a.resolveAll(ctx, []string{resolverOfEngine}, a.Names, false)
		}},
		{"dns-host", func(ctx context.Context, a Aims) result {
			aims := slices.Concat(a.Host.over(4), a.Host.Resolvers, gateways(), outside)
			return a.resolveAll(ctx, aims, a.Names[:1], true)
		}},
	}
}

// resolveAll asks each server for each name, over TCP and UDP. The attack got out if a name
// resolves or, with anyAnswer, if any server answers at all.
func (a Aims) resolveAll(ctx context.Context, servers, names []string, anyAnswer bool) result {
	type question struct{ network, server, name string }
	var all []question
	for _, server := range servers {
		for _, name := range names {
			all = append(all, question{"tcp", server, name}, question{"udp", server, name})
		}
	}
	answers := make([]result, len(all))
	var asking sync.WaitGroup
	for i, q := range all {
		asking.Go(func() { answers[i] = resolve(ctx, q.network, q.server, q.name, anyAnswer) })
	}
	asking.Wait()
	errs := make([]error, len(all))
	for i, answer := range answers {
		if answer.state == Out {
			return answer
		}
		errs[i] = errors.New(answer.detail)
	}
	return result{Refused, summary(errs)}
}

// resolve asks one server for one name.
func resolve(ctx context.Context, network, server, name string, anyAnswer bool) result {
	code, addresses, err := Lookup(ctx, network, server, name)
	switch {
	case anyAnswer && errors.Is(err, unix.ECONNREFUSED):
		return out("%s answers over %s: connection refused", server, network)
	case err != nil:
		return result{Refused, reason(err)}
	case addresses > 0:
		return out("%s resolves %s over %s", server, name, network)
	case anyAnswer:
		return out("%s answers over %s: %s", server, network, code)
	}
	return result{Refused, code.String()}
}

// Lookup queries one server for the IPv4 addresses of a name, and returns the number of
// answers.
func Lookup(ctx context.Context, network, server, name string) (dnsmessage.RCode, int, error) {
	asked, err := dnsmessage.NewName(name + ".")
	if err != nil {
		return 0, 0, err
	}
	const id = 4711
	question := dnsmessage.Message{
		Header:    dnsmessage.Header{ID: id, RecursionDesired: true},
		Questions: []dnsmessage.Question{{Name: asked, Type: dnsmessage.TypeA, Class: dnsmessage.ClassINET}},
	}
	packed, err := question.Pack()
	if err != nil {
		return 0, 0, err
	}
	dialer := net.Dialer{Timeout: patience}
	conn, err := dialer.DialContext(ctx, network, net.JoinHostPort(server, "53"))
	if err != nil {
		return 0, 0, err
	}
	defer func() { _ = conn.Close() }()
	_ = conn.SetDeadline(time.Now().Add(patience))
	reply, err := converse(conn, network, packed)
	if err != nil {
		return 0, 0, err
	}
	var answer dnsmessage.Message
	if err := answer.Unpack(reply); err != nil || answer.ID != id {
		return 0, 0, fmt.Errorf("no DNS: %w", err)
	}
	return answer.RCode, len(answer.Answers), nil
}

// converse sends a query and reads the response. Over TCP, messages are preceded by their
// length (RFC 1035, section 4.2.2).
func converse(conn net.Conn, network string, question []byte) ([]byte, error) {
	if network == "udp" {
		if _, err := conn.Write(question); err != nil {
			return nil, err
		}
		answer := make([]byte, 4096)
		n, err := conn.Read(answer)
		return answer[:n], err
	}
	if _, err := conn.Write(append(binary.BigEndian.AppendUint16(nil, uint16(len(question))), question...)); err != nil {
		return nil, err
	}
	var length [2]byte
	if _, err := io.ReadFull(conn, length[:]); err != nil {
		return nil, err
	}
	answer := make([]byte, binary.BigEndian.Uint16(length[:]))
	_, err := io.ReadFull(conn, answer)
	return answer, err
}
