package probe

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// outside are unassigned addresses from the ranges for documentation (RFC 5737, RFC 3849).
var outside = []string{"198.51.100.1", "203.0.113.1", "2001:db8::1"}

const metadata = "169.254.169.254"

func networkAttempts() []attempt {
	return []attempt{
		{HostTCP, hostTCP},
		{"bridge-tcp", func(ctx context.Context, a Aims) result {
			aims := gateways()
			if len(aims) == 0 {
				return refused(errors.New("no interface, so no bridge"))
			}
			return a.dialAll(ctx, withPorts(aims, a.Host.TCP4, 22, 80), answerCounts, nil)
		}},
		{"device-tcp", func(ctx context.Context, a Aims) result {
			return a.dialAll(ctx, withPorts(slices.Concat(a.Host.over(4), gateways()), a.Host.TCP4), answerCounts, bindToDevice)
		}},
		{"host-ipv6", hostIPv6},
		{"neighbour", neighbour},
		{"other-server", otherServer},
		{"external", func(ctx context.Context, a Aims) result {
			return a.dialAll(ctx, withPorts(outside, 443, 53), answerCounts, nil)
		}},
		{"metadata", func(ctx context.Context, a Aims) result {
			return a.dialAll(ctx, withPorts([]string{metadata}, 80), answerCounts, nil)
		}},
		{"engine-tcp", func(ctx context.Context, a Aims) result {
			aims := slices.Concat(a.Host.over(4), gateways(), []string{"127.0.0.1"})
			return a.dialAll(ctx, withPorts(aims, 2375, 2376), connectionCounts, nil)
		}},
	}
}

func hostTCP(ctx context.Context, a Aims) result {
	if a.Host.TCP4 == 0 {
		return untried("nothing of ours listens on the host")
	}
	aims := append(a.Host.over(4), "127.0.0.1") // 127.0.0.1 is the host's own if we share its network
	return a.dialAll(ctx, withPorts(aims, a.Host.TCP4), listenerCounts, nil)
}

// hostIPv6 connects to the host's addresses, and to link-local addresses on every interface,
// since interfaces with IPv6 always have one.
func hostIPv6(ctx context.Context, a Aims) result {
	if a.Host.TCP6 == 0 {
		return untried("the host has no IPv6")
	}
	var aims []string
	for _, aim := range append(a.Host.over(6), "ff02::1") {
		if !isLinkLocal(aim) && aim != "ff02::1" {
			aims = append(aims, aim)
			continue
		}
		for _, name := range interfaces() {
			aims = append(aims, aim+"%"+name)
		}
	}
	r := a.dialAll(ctx, withPorts(aims, a.Host.TCP6), connectionCounts, nil)
	if r.state == Refused && a.Host.UDP6 != 0 {
		for _, aim := range aims {
			if err := sendTo(a, "udp", aim, a.Host.UDP6); err == nil {
				r = result{Sent, "datagrams went out to " + aim}
			}
		}
	}
	return r
}

// neighbour connects to the addresses of another trial's subnet and, in case both share a
// network namespace, to loopback.
func neighbour(ctx context.Context, a Aims) result {
	if a.Neighbour.TCP4 == 0 {
		return untried("there is no other trial")
	}
	aims := []string{"127.0.0.1"}
	for _, addr := range a.Neighbour.over(4) {
		aims = append(aims, taskNetworkAddrs(addr)...)
	}
	own := ownAddrs()
	aims = slices.Compact(slices.DeleteFunc(aims, func(aim string) bool { return slices.Contains(own, aim) }))
	targets := append(withPorts(aims, a.Neighbour.TCP4), withPorts(aims[1:], 80)...)
	r := a.dialAll(ctx, targets, listenerCounts, nil)
	if r.state == Refused && len(aims) == 1 {
		r.detail = "the other trial has no address; " + r.detail
	}
	return r
}

// taskNetworkAddrs returns the addresses of the task network that contains addr.
func taskNetworkAddrs(addr string) []string {
	ip, err := netip.ParseAddr(addr)
	if err != nil {
		return nil
	}
	var all []string
	subnet := netip.PrefixFrom(ip, taskBits).Masked()
	for at := subnet.Addr(); subnet.Contains(at); at = at.Next() {
		all = append(all, at.String())
	}
	return all
}

// taskBits is the prefix length of a task network.
const taskBits = 29

// otherServer connects to another server of the trial without the runner: by its name, at its
// addresses, and at addresses that names may resolve to here. A refusal may come from its own
// guest, so only a connection counts.
func otherServer(ctx context.Context, a Aims) result {
	if a.Sibling.TCP4 == 0 {
		return untried("there is no other server")
	}
	aims := append([]string{a.SiblingAt, "127.0.0.1", "127.0.1.1", "127.0.2.1"}, a.Sibling.over(4)...)
	return a.dialAll(ctx, withPorts(aims, a.Sibling.TCP4), listenerCounts, nil)
}

// verdict says which responses to a connection request count as a way out.
type verdict int

const (
	connectionCounts verdict = iota // only a connection
	answerCounts                    // also a refusal, since nobody should be there
	// listenerCounts is for the port of one of our listeners: only a connection, and on loopback only
	// if it reaches that listener, since a program of this container may listen on the same port.
	listenerCounts
)

// dialAll connects to all addresses in parallel and reports the first one that is a way out. It
// sends the payload on connections.
func (a Aims) dialAll(ctx context.Context, addrs []string, counts verdict, prepare func(fd int) error) result {
	dialer := net.Dialer{Timeout: patience, Control: func(_, _ string, c syscall.RawConn) (err error) {
		if prepare == nil {
			return nil
		}
		if broken := c.Control(func(fd uintptr) { err = prepare(int(fd)) }); broken != nil {
			return broken
		}
		return err
	}}
	slots := make(chan struct{}, 32)
	errs := make([]error, len(addrs))
	var dialling sync.WaitGroup
	for i, addr := range addrs {
		dialling.Go(func() {
			slots <- struct{}{}
			defer func() { <-slots }()
			errs[i] = a.dial(ctx, dialer, addr, counts)
		})
	}
	dialling.Wait()
	for i, err := range errs {
		switch {
		case err == nil:
			return out("connected to %s", addrs[i])
		case counts == answerCounts && errors.Is(err, unix.ECONNREFUSED):
			return out("%s answers: connection refused", addrs[i])
		}
	}
	return result{Refused, summary(errs)}
}

func (a Aims) dial(ctx context.Context, dialer net.Dialer, addr string, counts verdict) error {
	conn, err := dialer.DialContext(ctx, "tcp", addr)
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close() }()
	host, _, _ := net.SplitHostPort(addr)
	_ = conn.SetDeadline(time.Now().Add(patience))
	payload := Payload(a, a.attack, host)
	_, err = conn.Write([]byte(payload))
	if counts == listenerCounts && net.ParseIP(host).IsLoopback() {
		if answer, _ := bufio.NewReader(io.LimitReader(conn, maxPayload)).ReadString('\n'); answer != payload {
			return errors.New("only a program of this container listens there")
		}
	}
	return err
}

// summary joins errors, with a count for repeated ones.
func summary(errs []error) string {
	count := map[string]int{}
	var order []string
	for _, err := range errs {
		why := reason(err)
		if count[why]++; count[why] == 1 {
			order = append(order, why)
		}
	}
	for i, why := range order {
		if count[why] > 1 {
			order[i] = fmt.Sprintf("%s (%d times)", why, count[why])
		}
	}
	return strings.Join(order, ", ")
}

// reason returns an error without the addresses that it contains.
func reason(err error) string {
	var errno unix.Errno
	var timeout interface{ Timeout() bool }
	var dns *net.DNSError
	switch {
	case errors.As(err, &errno):
		return errno.Error()
	case errors.As(err, &dns):
		return "no such name"
	case errors.As(err, &timeout) && timeout.Timeout():
		return "no answer"
	}
	return err.Error()
}

// withPorts joins every address with every port that is not 0.
func withPorts(addrs []string, ports ...int) []string {
	var all []string
	for _, addr := range addrs {
		for _, port := range ports {
			if port > 0 {
				all = append(all, net.JoinHostPort(addr, strconv.Itoa(port)))
			}
		}
	}
	return all
}

// interfaces returns the names of this container's interfaces except loopback.
func interfaces() []string {
	all, _ := net.Interfaces()
	var names []string
	for _, i := range all {
		if i.Flags&net.FlagLoopback == 0 && i.Flags&net.FlagUp != 0 {
			names = append(names, i.Name)
		}
	}
	return names
}

// gateways returns the first address of each of our networks, where the host usually is.
func gateways() []string {
	all, _ := net.InterfaceAddrs()
	var found []string
	for _, a := range all {
		prefix, err := netip.ParsePrefix(a.String())
		if err == nil && prefix.Addr().Is4() && !prefix.Addr().IsLoopback() {
			found = append(found, prefix.Masked().Addr().Next().String())
		}
	}
	return found
}
