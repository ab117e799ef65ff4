package attacks

import (
	"strings"

	"github.com/waza-isolate/waza/evidence"
	"github.com/waza-isolate/waza/sandbox/probe"
)

// certificateAttacks returns the attacks of the certificate. Here they are tried by the agent and
// a server of a regular trial, while other trials run.
func certificateAttacks() []Attack {
	var all []Attack
	for _, a := range probe.Attacks() {
		tried := Attack{Attack: a, As: Both, In: probe.HostTCP, Won: ArrivedOrSaidSo, Tried: HasReport}
		switch a.Name {
		case probe.HostTCP:
			tried.In, tried.Task = "", besideCalm
		case "guest-signals":
			tried.Won = guestEnded
		}
		all = append(all, tried)
	}
	return all
}

// guestEnded reports whether process 1 of a container ended. The attacker cannot report it,
// since it ended too.
func guestEnded(s Scene) (bool, string) {
	r := s.Result()
	if r.Reason == evidence.ReasonGuest || strings.Contains(r.Message, "process 1") {
		return true, r.Message
	}
	return SaidSo(s)
}
