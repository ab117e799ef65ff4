package attacks

import (
	"fmt"
	"slices"
	"strings"

	"github.com/waza-isolate/waza/evidence"
	"github.com/waza-isolate/waza/test/attacks/part"
)

// networkAttacks returns the attacks that look for other containers, in addition to those
// of the probe.
func networkAttacks() []Attack {
	stands := Attack{As: Both, Promise: NoRoute, Without: serversStandAlone(), Won: SaidSo, Tried: HasReport, In: part.Reaching}
	as := func(a Attack, name string, role Role, tries string) Attack {
		a.Name, a.As, a.Goal = name, role, tries
		if name == a.In {
			a.In, a.As, a.Task = "", Both, besideCalm // the trial of all others
		}
		return a
	}
	between := stands
	between.Without = kept("a network for each trial", "the engine separates its networks; tests of containers put two trials on one network")
	ports := stands
	ports.Promise, ports.Without = AllRecorded, oneServerPort()
	return []Attack{
		as(stands, part.Reaching, Agent, "connect to a server directly, bypassing the runner, at every address of its network and by name"),
		as(stands, "server-to-server", Server, "connect to another server of its trial"),
		as(stands, "server-to-agent", Server, "connect to its agent, which listens, and impersonate the agent at the agent's guest"),
		as(between, part.TrialToTrial, Both, "connect to agents and servers at every address of other trials"),
		as(ports, part.ServerPorts, Agent, "connect to a port of its own guest other than that of its servers"),
		{
			Name: part.Tunnel, As: Both, Promise: NamesStay, Without: unknownNames(),
			Goal: "exfiltrate data in DNS queries", Won: tunnelled, Tried: HasReport,
		},
		{
			Name: "grader-gets-out", As: Grader, Promise: NoRoute, Without: graderAlone(),
			Goal: "carry out every attack of the certificate from a grader's program", Won: gotOutOfGrader(),
		},
		{
			Name: "call-from-another-process", As: Agent, Promise: AllRecorded, Without: recording(),
			Goal: "call a server from a process other than the agent without being recorded", Won: unrecorded, Tried: HasReport,
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
