package attacks

import (
	"archive/tar"
	"path"
	"strings"

	"github.com/waza-isolate/waza/eval"
	"github.com/waza-isolate/waza/evidence"
	"github.com/waza-isolate/waza/sandbox/probe"
	"github.com/waza-isolate/waza/test/attacks/part"
)

// outlivingAttacks returns the attacks by processes that do not end when they should.
func outlivingAttacks() []Attack {
	short := func(_ Ground, t *eval.Task) { t.TimeoutSeconds = 3 }
	return []Attack{
		{
			Attack: entry("outlive-agent", "leave a double-forked process that changes the workspace after the agent's end, before graders see it", probe.FairVerdict, soleProgram),
			As:     Agent, Won: marked, Tried: HasReport,
		},
		{
			Attack: entry("ignore-sigterm", "ignore SIGTERM and keep running after its timeout", probe.OthersGoOn, killing),
			As:     Agent, Won: SaidSo, Tried: timedOut, Task: short,
		},
		{
			Attack: entry("outlive-stdin", "double-fork when its stdin ends, and outlive its trial", probe.NothingLeft, ending),
			As:     Server, Won: alive, Tried: HasReport,
		},
		{
			Attack: entry("outlive-runner", "stop process 1, ignore signals, and outlive a runner that is killed by SIGKILL", probe.NothingLeft, ending),
			As:     Both, Won: aliveOrStanding, Alone: &Alone{Kill: true},
			Tried: func(s Scene) bool { return s.Run.Killed },
		},
	}
}

// marked reports whether the workspace contains the file that was written after the agent's
// end.
func marked(s Scene) (bool, string) {
	workspace, err := s.Dir.Workspace()
	if err != nil {
		return false, err.Error()
	}
	defer func() { _ = workspace.Close() }()
	for files := tar.NewReader(workspace); ; {
		header, err := files.Next()
		if err != nil {
			return false, "the workspace is as the agent left it"
		}
		if path.Base(header.Name) == part.Mark {
			return true, "the workspace was changed after the agent's end"
		}
	}
}

func timedOut(s Scene) bool { return s.Result().Outcome == evidence.ClassTimeout }

// alive reports whether a process of the trial still runs on the host.
func alive(s Scene) (bool, string) {
	from := part.Nonce(s.Run.ID, s.Task, "")
	for _, line := range s.Run.Alive {
		if strings.Contains(line, from) {
			return true, "left: " + line
		}
	}
	return false, "nothing is left of it"
}

// aliveOrStanding is like alive, and also reports containers that still exist.
func aliveOrStanding(s Scene) (bool, string) {
	if won, detail := alive(s); won {
		return won, detail
	}
	for _, object := range s.Run.Left {
		if isContainer(object) {
			return true, object
		}
	}
	return false, "no process and no container is left"
}

// isContainer reports whether an object on the engine is one, or a pod.
func isContainer(object string) bool {
	return strings.HasPrefix(object, "container ") || strings.HasPrefix(object, "pod ")
}
