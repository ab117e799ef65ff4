package attacks

import (
	"fmt"

	"github.com/waza-isolate/waza/eval"
	"github.com/waza-isolate/waza/evidence"
	"github.com/waza-isolate/waza/sandbox"
	"github.com/waza-isolate/waza/sandbox/probe"
	"github.com/waza-isolate/waza/test/attacks/part"
)

// usesUp returns an attack that uses up a resource that the kernel limits per user.
func usesUp(name, what string) Attack {
	a := Attack{
		Attack: entry(name, "leave a server in another container without "+what+", which the kernel limits per user", probe.OthersGoOn, probe.OwnUsers),
		In:     part.UsesUp, As: Both, Won: SaidSo, Tried: HasReport,
	}
	if name == part.UsesUp {
		a.In = ""
	}
	return a
}

// bombAttacks returns the attacks that exceed the resource limits.
func bombAttacks() []Attack {
	const first = "fork-bomb"
	within := func(name, tries string, without probe.Defence) Attack {
		return Attack{Attack: entry(name, tries, probe.OthersGoOn, without), In: first, As: Agent, Won: SaidSo, Tried: HasReport}
	}
	fork := within(first, "run more processes than its container may", someProcesses)
	fork.In, fork.Won = "", func(s Scene) (bool, string) {
		used := s.used(sandbox.Agent)
		if used.Pids == nil {
			return true, "nobody saw how many there were"
		}
		return used.Pids.Peak > part.Pids, fmt.Sprintf("there were %d at once", used.Pids.Peak)
	}
	fork.Tried = func(s Scene) bool {
		refused := s.used(sandbox.Agent).ForksRefused
		return refused != nil && *refused > 0
	}
	memory := within("memory-bomb", "use more memory than its container may", someMemory)
	memory.Won = func(s Scene) (bool, string) {
		used := s.used(sandbox.Agent)
		if used.Memory == nil {
			return true, "nobody saw how much it was"
		}
		const counting = 1 << 20 // cgroups count before they refuse
		return used.Memory.Peak > part.Memory+counting, fmt.Sprintf("it had %d bytes", used.Memory.Peak)
	}
	memory.Tried = func(s Scene) bool { kills := s.used(sandbox.Agent).OOMKills; return kills != nil && *kills > 0 }
	return []Attack{
		fork, memory,
		within("thread-bomb", "run more threads than its container may", someProcesses),
		within("sysv-memory-bomb", "use more memory than its container may, in System V segments", someMemory),
		within("descriptor-bomb", "open more files than a process may", someFiles),
		within("keyring-bomb", "fill the kernel's keyrings, which all containers share", probe.SeccompFilter),
		within("message-queue-bomb", "fill the kernel's memory with message queues", probe.Kept("the kernel's limit of message queues",
			"the kernel allows a user so many bytes of them")),
		usesUp(part.UsesUp, "watchers of files (inotify)"),
		usesUp("uses-up-queues", "room for queues of messages"),
		usesUp("uses-up-timers", "timers"),
		usesUp("uses-up-descriptors", "descriptors on their way through sockets"),
		usesUp("uses-up-pipes", "room in pipes"),
		{
			Attack: entry("cpu-hog", "use more CPU time than its container may, and starve its neighbours", probe.OthersGoOn, someCPU),
			As:     Server, Tried: HasReport,
			Task: func(_ Ground, t *eval.Task) {
				t.MCPServers[evil].CPUs = 0.1
			},
			Won: func(s Scene) (bool, string) {
				used := s.used(evil)
				if used.CPU == nil || used.Throttled == nil {
					return true, "nobody saw how much it was"
				}
				return *used.Throttled == 0, fmt.Sprintf("in 4 s it had %.1f s, and had to wait %.1f s", *used.CPU, *used.Throttled)
			},
		},
		{
			Attack: entry("agent-output-flood", "fill the host's disk with an endless line of output", probe.OthersGoOn, someOutput),
			As:     Agent, Tried: agentErred,
			Won: func(s Scene) (bool, string) {
				size := s.sizeOf(evidence.StdoutFile)
				return size > part.AgentOutput, fmt.Sprintf("%d bytes are kept", size)
			},
		},
		{
			Attack: entry("server-stderr-flood", "fill the host's disk with an endless line on stderr", probe.OthersGoOn, someStderr),
			As:     Server,
			Won: func(s Scene) (bool, string) {
				size := s.sizeOf("servers/" + evil + ".stderr")
				return size > part.ServerStderr, fmt.Sprintf("%d bytes are kept", size)
			},
			Tried: func(s Scene) bool { return s.sizeOf("servers/"+evil+".stderr") == part.ServerStderr },
		},
	}
}

// used returns the resource usage of a container of the trial. It is empty if it was not
// measured.
func (s Scene) used(container string) evidence.Usage {
	trial, err := s.Dir.Trial()
	if err != nil || trial.Resources[container].Used == nil {
		return evidence.Usage{}
	}
	return *trial.Resources[container].Used
}
