package attacks

import (
	"fmt"
	"slices"
	"strings"

	"github.com/waza-isolate/waza/evidence"
	"github.com/waza-isolate/waza/sandbox/probe"
	"github.com/waza-isolate/waza/test/attacks/part"
)

// networkAttacks returns the attacks that look for other containers, in addition to those
// of the probe.
func networkAttacks() []Attack {
	from := func(role Role, described probe.Attack) Attack {
		return Attack{Attack: described, As: role, In: part.Reaching, Won: SaidSo, Tried: HasReport}
	}
	reaching := from(Both, entry(part.Reaching, "connect to a server directly, bypassing the runner, at every address of its network and by name", probe.NoRoute, serversStandAlone))
	reaching.In, reaching.Task = "", besideCalm // the trial of all others
	return []Attack{
		reaching,
		from(Server, entry("server-to-server", "connect to another server of its trial", probe.NoRoute, serversStandAlone)),
		from(Server, entry("server-to-agent", "connect to its agent, which listens, and impersonate the agent at the agent's guest", probe.NoRoute, serversStandAlone)),
		from(Both, entry(part.TrialToTrial, "connect to agents and servers at every address of other trials", probe.NoRoute, probe.OwnNetwork)),
		from(Agent, entry(part.ServerPorts, "connect to a port of its own guest other than that of its servers", probe.AllRecorded, oneServerPort)),
		{
			Attack: entry(part.Tunnel, "exfiltrate data in DNS queries", probe.NamesStay, unknownNames),
			As:     Both, Won: tunnelled, Tried: HasReport,
		},
		{
			Attack: entry("grader-gets-out", "carry out every attack of the certificate from a grader's program", probe.NoRoute, graderAlone),
			As:     Grader, Won: gotOutOfGrader(),
		},
		{
			Attack: entry("call-from-another-process", "call a server from a process other than the agent without being recorded", probe.AllRecorded, recording),
			As:     Agent, Won: unrecorded, Tried: HasReport,
		},
	}
}

// tunnelled reports whether a query was answered or is missing from the record.
func tunnelled(s Scene) (bool, string) {
	won, detail := SaidSo(s)
	events, err := s.Dir.Events()
	if won || err != nil {
		return true, detail
	}
	for _, e := range events {
		if e.Kind == "dns" && strings.HasSuffix(e.Message, part.TunnelZone+": NXDOMAIN") {
			return false, detail
		}
	}
	return true, "no question is on record"
}

// gotOutOfGrader reports whether any attack of the probe got out of a grader's program, but for
// those that are named.
func gotOutOfGrader(except ...string) func(Scene) (bool, string) {
	return func(s Scene) (bool, string) {
		for _, a := range s.Run.Arrivals {
			if strings.HasPrefix(a.Nonce, part.Nonce(s.Run.ID, s.Task, "grader")) {
				return true, a.Attack + " arrived at " + a.At
			}
		}
		for _, w := range part.Hear(s.programs()) {
			if w.Won && !slices.Contains(except, w.Attack) {
				return true, w.Attack + ": " + w.Detail
			}
		}
		return false, ""
	}
}

// unrecorded compares the recorded calls with those that got a response.
func unrecorded(s Scene) (bool, string) {
	const answered = "2"
	words := s.Words()
	if len(words) == 0 || words[0].Detail != answered {
		return false, "the agent's calls were not answered"
	}
	calls, err := s.Dir.Calls()
	if err != nil {
		return true, err.Error()
	}
	if len(calls) == 2 && calls[0].Outcome == evidence.OutcomeOK && calls[1].Outcome == evidence.OutcomeOK {
		return false, "both calls are on record with their results"
	}
	return true, fmt.Sprintf("of 2 calls %d are on record", len(calls))
}
