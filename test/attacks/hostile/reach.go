package main

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/waza-isolate/waza/test/attacks/part"
)

// reachingActs returns the acts that look for other containers on the networks of trials.
func reachingActs() map[string]act {
	return map[string]act{
		part.Reaching: {
			agent: func(ctx context.Context) []part.Word {
				words := []part.Word{ports(ctx)} // before listening itself
				stop, err := beThere()
				if err != nil {
					return nil
				}
				defer stop()
				return append(words, reach(ctx, agent)...)
			},
			tool: func(ctx context.Context) []part.Word { return reach(ctx, stdioServer) },
		},
	}
}

const (
	dialTimeout = 700 * time.Millisecond
	dialsAtOnce = 64
	serversPort = 80
	maxPort     = 10_000
	taskNetwork = 29 // bits; the agent has the second address of each
)

// beThere listens where a server may look for an agent.
func beThere() (stop func(), err error) {
	ln, err := net.Listen("tcp", ":"+strconv.Itoa(part.Port))
	if err != nil {
		return nil, err
	}
	var serving sync.WaitGroup
	serving.Go(func() {
		for {
			conn, err := ln.Accept()
			if err != nil {
				return
			}
			_ = conn.Close()
		}
	})
	return func() { _ = ln.Close(); serving.Wait() }, nil
}

// reach tries to connect to every address of every task network, and by name.
func reach(ctx context.Context, role string) []part.Word {
	aims := map[string][]string{}
	own := ownPrefixes()
	for _, addr := range everywhere() {
		if mine(own, addr.String()) {
			continue
		}
		home := netip.PrefixFrom(addr, taskNetwork).Masked()
		ownTrial := len(own) == 0 || slices.ContainsFunc(own, func(p netip.Prefix) bool { return p.Overlaps(home) })
		attack := role + "-to-" + whose(addr, home)
		if !ownTrial {
			attack = part.TrialToTrial
		}
		aims[attack] = append(aims[attack], at(addr.String(), part.Port), at(addr.String(), serversPort))
	}
	if role == agent {
		names, _ := net.DefaultResolver.LookupHost(ctx, "calm")
		for _, addr := range names {
			if !mine(own, addr) { // its own guest; see ports
				aims[agent+"-to-"+stdioServer] = append(aims[agent+"-to-"+stdioServer], at(addr, part.Port), at(addr, part.Port+1))
			}
		}
	} else {
		aims[stdioServer+"-to-"+stdioServer] = append(aims[stdioServer+"-to-"+stdioServer], at("calm", part.Port), at("calm", serversPort))
		aims[stdioServer+"-to-"+agent] = append(aims[stdioServer+"-to-"+agent], at(agent, part.Port))
	}
	var words []part.Word
	for attack, addrs := range aims {
		if attack == agent+"-to-"+agent { // the only agent on its network is this one
			continue
		}
		words = append(words, reported(attack, role, connect(ctx, addrs), len(addrs)))
	}
	return words
}

// mine reports whether addr is an address of this container.
func mine(own []netip.Prefix, addr string) bool {
	ip, err := netip.ParseAddr(addr)
	return err == nil && (ip.IsLoopback() || slices.ContainsFunc(own, func(p netip.Prefix) bool { return p.Addr() == ip }))
}

// whose returns the role of the container that would have an address on a task network.
func whose(addr netip.Addr, home netip.Prefix) string {
	if addr == home.Addr().Next().Next() {
		return agent
	}
	return stdioServer
}

func reported(attack, role string, open []string, tried int) part.Word {
	w := part.Word{Attack: attack, Won: len(open) > 0, Detail: fmt.Sprintf("as %s: none of %d answers", role, tried)}
	if w.Won {
		w.Detail = "as " + role + ": connected to " + strings.Join(open[:min(len(open), 5)], ", ")
	}
	return w
}

// ports looks for open ports at the servers' address.
func ports(ctx context.Context) part.Word {
	var addrs []string
	for port := 1; port <= maxPort; port++ {
		if port != serversPort {
			addrs = append(addrs, at(victim, port))
		}
	}
	return reported(part.ServerPorts, agent, connect(ctx, addrs), len(addrs))
}

func at(host string, port int) string { return net.JoinHostPort(host, strconv.Itoa(port)) }

// everywhere returns every address of the task networks.
func everywhere() []netip.Addr {
	all := netip.MustParsePrefix(part.Subnets)
	var addrs []netip.Addr
	for addr := all.Addr(); all.Contains(addr); addr = addr.Next() {
		addrs = append(addrs, addr)
	}
	return addrs
}

// ownPrefixes returns the IPv4 addresses of this container, except loopback, with their
// networks.
func ownPrefixes() []netip.Prefix {
	all, _ := net.InterfaceAddrs()
	var own []netip.Prefix
	for _, a := range all {
		if p, err := netip.ParsePrefix(a.String()); err == nil && p.Addr().Is4() && !p.Addr().IsLoopback() {
			own = append(own, p)
		}
	}
	return own
}

// connect returns the addresses that accept connections.
func connect(ctx context.Context, addrs []string) []string {
	slots := make(chan struct{}, dialsAtOnce)
	open := make([]bool, len(addrs))
	var dialling sync.WaitGroup
	for i, addr := range addrs {
		slots <- struct{}{}
		dialling.Go(func() {
			defer func() { <-slots }()
			dialer := net.Dialer{Timeout: dialTimeout}
			conn, err := dialer.DialContext(ctx, "tcp", addr)
			if err != nil {
				return
			}
			open[i] = true
			_ = conn.Close()
		})
	}
	dialling.Wait()
	var found []string
	for i, addr := range addrs {
		if open[i] {
			found = append(found, addr)
		}
	}
	return found
}
