package attacks

import (
	"fmt"

	"github.com/waza-isolate/waza/eval"
	"github.com/waza-isolate/waza/mcpconfig"
	"github.com/waza-isolate/waza/sandbox/probe"
	"github.com/waza-isolate/waza/test/attacks/part"
)

// awayAttacks returns the attacks by remote servers, which the runner talks to itself.
func awayAttacks() []Attack {
	by := func(name, kind string) func(Ground, *eval.Task) {
		return func(g Ground, t *eval.Task) {
			t.MCPServers = map[string]*mcpconfig.Server{"away": {URL: fmt.Sprintf("%s/%s/%s", g.Away, name, name), Type: kind}}
		}
	}
	return []Attack{
		{
			Attack: entry("redirect-elsewhere", "make the runner send requests into its own network by a redirect (SSRF)", probe.ByPolicy, oneOrigin),
			As:     Agent, Won: Scene.Arrived, Tried: HasReport,
			Task: by("redirect-elsewhere", "http"),
		},
		{
			Attack: entry("endpoint-elsewhere", "make the runner send requests into its own network by an endpoint event (SSRF)", probe.ByPolicy, oneOrigin),
			As:     Agent, Won: Scene.Arrived,
			Task: by("endpoint-elsewhere", "sse"),
		},
	}
}

// most limits the memory of the runner, whatever a trial does.
const most = 576 << 20

// mostHeld limits the memory of the runner while it holds 256 MiB of unread messages. The
// rest is garbage not yet collected.
const mostHeld = 672 << 20

// floodingAttacks returns the attacks on the runner itself.
func floodingAttacks() []Attack {
	beyond := func(bound int64) func(Scene) (bool, string) {
		return func(s Scene) (bool, string) {
			return s.Run.PeakRSS > bound, fmt.Sprintf("the runner had %d MiB", s.Run.PeakRSS>>20)
		}
	}
	heard := func(s Scene) bool { return s.sizeOfFrames() > 50<<20 }
	// On a busy machine all responses may be partly held and none complete.
	held := func(s Scene) bool { return heard(s) || s.Run.PeakRSS > 256<<20 }
	return []Attack{{
		Attack: entry("nothing-but-values", "exhaust the runner's memory while grading, with a message of ten million keys", probe.OthersGoOn, fewValues),
		As:     Agent, Won: beyond(most), Tried: heard,
		Alone: &Alone{Eval: func(_ Ground, e *eval.Eval) { e.Config.Isolation.Agent.Memory = "512m" }},
		Task: func(g Ground, t *eval.Task) {
			t.MCPServers = map[string]*mcpconfig.Server{"left": g.looseServer()}
			t.Graders = []eval.Grader{{Type: "mcp_compliance", Name: "graded", Config: forbids("left")}}
		},
	}, {
		Attack: entry(part.SlowReader, "exhaust the runner's memory with 90 parallel large responses that it does not read", probe.OthersGoOn, boundedMemory),
		As:     Agent, Won: beyond(mostHeld), Tried: held, Alone: &Alone{},
		Task: func(g Ground, t *eval.Task) {
			t.MCPServers = map[string]*mcpconfig.Server{}
			for _, name := range part.Talkers() {
				t.MCPServers[name] = g.looseServer()
			}
		},
	}}
}
