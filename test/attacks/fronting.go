package attacks

import (
	"encoding/json"
	"fmt"
	"net"

	"github.com/waza-isolate/waza/eval"
	"github.com/waza-isolate/waza/evidence"
	"github.com/waza-isolate/waza/mcpconfig"
	"github.com/waza-isolate/waza/sandbox"
	"github.com/waza-isolate/waza/sandbox/probe"
	"github.com/waza-isolate/waza/test/attacks/part"
)

// frontingAttacks returns the attacks by an agent that may access one host, and tries to
// reach others through it.
func frontingAttacks() []Attack {
	return []Attack{
		{
			Attack: entry(part.EgressByAgent, "reach the host through the agent's egress proxy, which allows another host", probe.ByPolicy, egressPolicy),
			As:     Agent, Won: Scene.Arrived, Tried: HasReport,
			Alone: &Alone{Eval: allowOne},
		},
		{
			Attack: entry(part.OtherSNI, "name another host in the SNI of a tunnel to an allowed host (domain fronting)", probe.ByPolicy, tunnelsAsNamed),
			In:     part.EgressByAgent, As: Agent, Tried: HasReport,
			Won: carried(part.Allowed, 443),
		},
		{
			Attack: entry(part.OtherHost, "name the host's address in the Host header of a request to an allowed host (domain fronting)", probe.ByPolicy, hostsAsConnected),
			In:     part.EgressByAgent, As: Agent, Tried: HasReport,
			Won: carriedElsewhere,
		},
	}
}

// allowOne allows agents to access one host, which is a listener outside.
func allowOne(g Ground, e *eval.Eval) {
	aims, err := part.Aims(g.Aims)
	if err != nil || len(aims.Host.Addrs) == 0 {
		return // nothing is attempted then, and Tried is false
	}
	at := net.JoinHostPort(aims.Host.Addrs[0], fmt.Sprint(aims.Host.TCP4))
	e.Config.Isolation.Agent.Egress = []mcpconfig.Egress{{Host: part.Allowed + ":443", Address: at}, {Host: part.Allowed + ":80", Address: at}}
}

// egress returns the runner's records of the agent's successful egress.
func (s Scene) egress() []evidence.Egress {
	var all []evidence.Egress
	events, _ := s.Dir.Events()
	for _, e := range events {
		data, _ := json.Marshal(e.Data) // it came as JSON
		var reported evidence.Egress
		if e.Kind == "egress" && e.Where == sandbox.Agent && json.Unmarshal(data, &reported) == nil && reported.Allowed && reported.Out > 0 {
			all = append(all, reported)
		}
	}
	return all
}

// carried reports whether data was sent to a host that must not be reached.
func carried(name string, port int) func(Scene) (bool, string) {
	return func(s Scene) (bool, string) {
		for _, reported := range s.egress() {
			if reported.Name == name && reported.Port == port {
				return true, fmt.Sprintf("%d bytes left for %s", reported.Out, reported.Address)
			}
		}
		return false, "nothing left"
	}
}

// carriedElsewhere reports whether a request was sent to a host other than the allowed one.
func carriedElsewhere(s Scene) (bool, string) {
	for _, reported := range s.egress() {
		if reported.Name != part.Allowed && reported.By == "http" {
			return true, fmt.Sprintf("%d bytes left for %s", reported.Out, reported.Address)
		}
	}
	return false, "nothing left"
}
