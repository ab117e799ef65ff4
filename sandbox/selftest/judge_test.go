package selftest

import (
	"strings"
	"testing"

	"github.com/waza-isolate/waza/evidence"
	"github.com/waza-isolate/waza/sandbox"
	"github.com/waza-isolate/waza/sandbox/probe"
)

// What an attack says of itself, and what listeners heard, decide together.
func TestJudge(t *testing.T) {
	heard := reachability{"tcp4": true, "udp4": true}
	agent := func(f ...probe.Finding) *attacker {
		a := &attacker{container: sandbox.Agent, nonce: "n.agent", ended: true, found: map[string]probe.Finding{}}
		for _, one := range f {
			a.found[one.Attack] = one
		}
		return a
	}
	listener := func(a ...probe.Arrival) *listener { return &listener{arrivals: a} }
	sent := probe.Finding{Attack: "device-udp", State: probe.Sent, Detail: "2 datagrams went out"}
	tests := []struct {
		name   string
		attack string
		ground testbed
		of     *attacker
		want   evidence.AttackResult
		says   string
	}{
		{"refused", "mount", testbed{}, agent(probe.Finding{Attack: "mount", State: probe.Refused, Detail: "no"}), evidence.AttackHeld, "no"},
		{"its own word", "mount", testbed{}, agent(probe.Finding{Attack: "mount", State: probe.Out, Detail: "yes"}), evidence.AttackGotOut, "yes"},
		{"sent and heard", "device-udp", testbed{reachable: heard, host: listener(probe.Arrival{Nonce: "n.agent", Attack: "device-udp", Aim: "192.0.2.9", Over: "udp4"})},
			agent(sent), evidence.AttackGotOut, "arrived at the engine's host, sent to 192.0.2.9 over udp4"},
		{"refused, it says, and yet heard", "device-udp", testbed{reachable: heard, neighbour: listener(probe.Arrival{Nonce: "n.agent", Attack: "device-udp"})},
			agent(probe.Finding{Attack: "device-udp", State: probe.Refused}), evidence.AttackGotOut, "another trial"},
		{"heard from another container", "device-udp", testbed{reachable: heard, host: listener(probe.Arrival{Nonce: "n.one", Attack: "device-udp"})}, agent(sent), evidence.AttackHeld, "did not arrive"},
		{"sent, and nobody listens", "device-udp", testbed{}, agent(sent), evidence.AttackNotTried, "could not be heard"},
		{"sent over what is not heard", "device-udp", testbed{reachable: reachability{"tcp4": true}}, agent(sent), evidence.AttackNotTried, "could not be heard"},
		{"no answer of a listener that is deaf", probe.HostTCP, testbed{reachable: reachability{"udp4": true}}, agent(probe.Finding{Attack: probe.HostTCP, State: probe.Refused, Detail: "no answer"}), evidence.AttackNotTried, "could not be heard"},
		{"no answer", probe.HostTCP, testbed{reachable: heard}, agent(probe.Finding{Attack: probe.HostTCP, State: probe.Refused, Detail: "no answer"}), evidence.AttackHeld, "no answer"},
		{"not reported", "mount", testbed{}, agent(), evidence.AttackNotTried, "said nothing"},
		{"the container ended", "guest-signals", testbed{}, &attacker{container: sandbox.Agent}, evidence.AttackGotOut, "container ended"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			got := test.ground.judgeOne(test.attack, test.of)
			if got.result != test.want || !strings.Contains(got.detail, test.says) {
				t.Errorf("%s, %q", got.result, got.detail)
			}
		})
	}
}

// The worst result of all containers counts, and the detail names the container.
func TestTogether(t *testing.T) {
	held := finding{"a", evidence.AttackHeld, "refused"}
	result, detail := worstOf([]finding{held, {"b", evidence.AttackHeld, "refused"}})
	if result != evidence.AttackHeld || detail != "refused" {
		t.Errorf("%s, %q", result, detail)
	}
	result, detail = worstOf([]finding{held, {"b", evidence.AttackGotOut, "arrived"}, {"c", evidence.AttackNotTried, "?"}})
	if result != evidence.AttackGotOut || detail != "from b: arrived" {
		t.Errorf("%s, %q", result, detail)
	}
}
