package selftest

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"io"
	"slices"
	"strings"

	"github.com/waza-isolate/waza/evidence"
	"github.com/waza-isolate/waza/sandbox"
	"github.com/waza-isolate/waza/sandbox/probe"
)

// attacker is a container from which attacks are tried, with their findings.
type attacker struct {
	container string
	nonce     string
	found     map[string]probe.Finding // by attack
	ended     bool                     // the container was running to the end
}

func (a *attacker) attack(ctx context.Context, s sandbox.Sandbox, aims probe.Aims) (err error) {
	a.found = map[string]probe.Finding{}
	a.ended, err = runProgram(ctx, in(s, a.container), probe.TryAll, aims, func(lines *json.Decoder) error {
		for {
			var f probe.Finding
			err := lines.Decode(&f)
			if errors.Is(err, io.EOF) {
				return nil
			}
			if err != nil {
				return err
			}
			a.found[f.Attack] = f
		}
	})
	return err
}

// judge returns the result of each attack.
func (b *testbed) judge() []evidence.Attack {
	var all []evidence.Attack
	for _, known := range probe.Attacks() {
		judged := evidence.Attack{Name: known.Name, Goal: known.Goal}
		var of []finding
		for _, a := range b.attackers {
			of = append(of, b.judgeOne(known.Name, a))
		}
		judged.Result, judged.Detail = worstOf(of)
		all = append(all, judged)
	}
	return all
}

// finding is the result of an attack from one container.
type finding struct {
	container string
	result    evidence.AttackResult
	detail    string
}

func (b *testbed) judgeOne(name string, a *attacker) finding {
	where := "the agent's container"
	if a.container != sandbox.Agent {
		where = "a server's container"
	}
	s := finding{container: where, result: evidence.AttackNotTried}
	f, reported := a.found[name]
	arrived, at := b.arrived(name, a.nonce)
	switch {
	case arrived != nil:
		s.result, s.detail = evidence.AttackGotOut, "it arrived at "+at+", sent to "+arrived.Aim+" over "+arrived.Over
	case !reported && !a.ended:
		s.result, s.detail = evidence.AttackGotOut, "process 1 and its container ended"
	case !reported:
		s.detail = "the probe said nothing of it"
	case f.State == probe.Out:
		s.result, s.detail = evidence.AttackGotOut, f.Detail
	case f.State == probe.Refused && overTCP(name) && !b.reachable["tcp4"]:
		s.detail = f.Detail + "; but the listener on the host could not be heard from beside it"
	case f.State == probe.Refused:
		s.result, s.detail = evidence.AttackHeld, f.Detail
	case f.State == probe.Sent && b.listens(name):
		s.result, s.detail = evidence.AttackHeld, f.Detail+", and did not arrive"
	case f.State == probe.Sent:
		s.detail = f.Detail + ", and the listener on the host could not be heard from beside it"
	default:
		s.detail = f.Detail
		if b.host == nil && b.hostProbeErr != nil {
			s.detail += ": " + b.hostProbeErr.Error()
		}
	}
	return s
}

// overTCP reports whether an attack aims at the host's listener over TCP. A refused connection only
// counts if the listener was reachable.
func overTCP(name string) bool {
	return slices.Contains([]string{probe.HostTCP, "bridge-tcp", "device-tcp"}, name)
}

// listens reports whether the host's listener would have received a datagram of an attack.
func (b *testbed) listens(name string) bool {
	if name == "host-ipv6" {
		return b.reachable["tcp6"]
	}
	return b.reachable["udp4"]
}

// arrived returns the arrival of an attack at a listener, and where the listener is; nil if there
// is none.
func (b *testbed) arrived(name, nonce string) (*probe.Arrival, string) {
	match := func(a probe.Arrival) bool { return a.Attack == name && a.Nonce == nonce }
	for _, at := range []struct {
		post *listener
		is   string
	}{{b.host, "the engine's host"}, {b.neighbour, "another trial"}, {b.sibling, "another server"}} {
		if a := at.post.find(match); a != nil {
			return a, at.is
		}
	}
	return nil, ""
}

// worstOf joins the results of an attack from all containers. The worst one counts.
func worstOf(of []finding) (evidence.AttackResult, string) {
	order := []evidence.AttackResult{evidence.AttackHeld, evidence.AttackNotTried, evidence.AttackGotOut}
	worst := slices.MaxFunc(of, func(a, b finding) int {
		return cmp.Compare(slices.Index(order, a.result), slices.Index(order, b.result))
	}).result
	var details, containers []string
	for _, s := range of {
		if s.result == worst {
			details, containers = append(details, s.detail), append(containers, s.container)
		}
	}
	if len(slices.Compact(slices.Clone(details))) == 1 && len(of) == len(details) {
		return worst, details[0]
	}
	for i := range details {
		details[i] = "from " + containers[i] + ": " + details[i]
	}
	return worst, strings.Join(details, "; ")
}
