package attacks

import (
	"fmt"
	"strings"

	"github.com/waza-isolate/waza/eval"
	"github.com/waza-isolate/waza/mcpconfig"
	"github.com/waza-isolate/waza/sandbox/guest"
	"github.com/waza-isolate/waza/sandbox/probe"
	"github.com/waza-isolate/waza/test/attacks/part"
)

// takeoverAttacks returns the attacks by guests that were taken over, each with a server of
// its own.
func takeoverAttacks() []Attack {
	yamux := probe.Kept("only frames of one version are accepted", "both the guard and yamux refuse other versions, as tests of sandbox/guest show")
	all := []Attack{
		{Attack: entry(part.MuxStreams, "open 100,000 streams to the runner", probe.OthersGoOn, guarded), Alone: &Alone{Hostile: true}},
		{Attack: entry(part.MuxPings, "have the runner answer 100,000 pings", probe.OthersGoOn, guarded)},
		{Attack: entry(part.MuxEmpty, "slow the runner down with 100,000 empty frames", probe.OthersGoOn, guarded)},
		{Attack: entry(part.MuxOversized, "announce frames of a gigabyte", probe.OthersGoOn, guarded)},
		{Attack: entry(part.MuxGarbage, "send the runner invalid frames", probe.OthersGoOn, yamux)},
	}
	names := make([]string, len(all))
	for i := range all {
		a := &all[i]
		names[i] = a.Name
		a.As, a.Won, a.Tried = Server, heardOut, HasReport
		if i > 0 {
			a.In = all[0].Name
		}
	}
	all[0].Task = func(g Ground, t *eval.Task) {
		t.MCPServers = map[string]*mcpconfig.Server{}
		for _, name := range names {
			t.MCPServers[name] = &mcpconfig.Server{Image: g.Image, Command: program, Args: []string{"server", name}, Timeout: 5000, Limits: mcpconfig.Limits{Memory: "128m", Disk: "64m"}}
		}
		t.Inputs.Prompt = all[0].Name
	}
	return all
}

// heardOut reports whether the runner kept talking to a guest that broke the protocol. It
// should have ended the session with a message. The runner itself should not have crashed
// or exceeded its memory limit.
func heardOut(s Scene) (bool, string) {
	if s.Run.Exit < 0 || s.Run.PeakRSS > most {
		return true, fmt.Sprintf("the runner had %d MiB, and ended with %d", s.Run.PeakRSS>>20, s.Run.Exit)
	}
	events, _ := s.Dir.Events()
	for _, e := range events {
		if e.Where == s.Attack && strings.Contains(e.Message, guest.ErrProtocol.Error()) {
			return false, e.Message
		}
	}
	return true, "nobody ended it"
}
