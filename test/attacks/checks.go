package attacks

import (
	"os"
	"path/filepath"
	"strings"

	"github.com/waza-isolate/waza/eval"
	"github.com/waza-isolate/waza/sandbox/probe"
	"github.com/waza-isolate/waza/test/attacks/part"
)

// leadsOut reports whether a file from the tar was written to the host, or where a grader's
// program sees it.
func leadsOut(s Scene) (bool, string) {
	for dir := string(s.Dir); dir != "/"; dir = filepath.Dir(dir) {
		for _, name := range []string{part.Planted, "tmp/" + part.Planted, "home/agent/" + part.Planted} {
			if _, err := os.Lstat(filepath.Join(dir, name)); err == nil {
				return true, filepath.Join(dir, name) + " is on the host"
			}
		}
	}
	return s.passed(part.Finds)
}

// checkAttacks returns the attacks by graders' programs.
func checkAttacks() []Attack {
	const first = "grader-claims-pass"
	plants, eats, leaves := "grader-plants", "grader-eats-memory", "grader-leaves-programs"
	verdictOf := func(grader string) func(Scene) (bool, string) {
		return func(s Scene) (bool, string) { return s.passed(grader) }
	}
	ran := func(grader string) func(Scene) bool {
		return func(s Scene) bool { _, there := s.Result().Validations[grader]; return there }
	}
	return []Attack{
		{
			Attack: entry(first, "pass by output in the format of waza's records, while exiting with an error", probe.FairVerdict, exitCodeCounts),
			As:     Grader, Won: verdictOf(first), Tried: ran(first),
			Task: func(g Ground, t *eval.Task) {
				t.Graders = nil
				for _, name := range []string{first, plants, part.Finds, eats, leaves} {
					t.Graders = append(t.Graders, g.Program(name, name))
				}
			},
		},
		{
			Attack: entry(part.LeadsOut, "write files outside the workspace by absolute names, .. or symlinks in a tar, from a guest that it took over", probe.HostHolds, confinedTar),
			As:     Agent, Won: leadsOut, Tried: collected("../home/agent/" + part.Planted),
			Alone: &Alone{Hostile: true},
			Task: func(g Ground, t *eval.Task) {
				t.Graders = []eval.Grader{g.Program(part.Finds, part.Finds)}
			},
		},
		{
			Attack: entry(plants, "change what a later grader's program sees", probe.FairVerdict, frozenWorkspace),
			In:     first, As: Grader, Won: verdictOf(part.Finds), Tried: ran(plants),
		},
		{
			Attack: entry(eats, "pass by exiting with 0 although the kernel killed the check for its memory", probe.FairVerdict, noPassOutOfMemory),
			In:     first, As: Grader, Won: verdictOf(eats), Tried: ran(eats),
		},
		{
			Attack: entry(leaves, "leave programs running after it has exited", probe.NothingLeft,
				probe.Kept("containers are removed after their program", "the container is removed after its program, and all its processes end with process 1")),
			In: first, As: Grader, Tried: ran(leaves),
			Won: func(s Scene) (bool, string) {
				for _, left := range s.Run.Left {
					if strings.Contains(left, first) {
						return true, left
					}
				}
				return false, ""
			},
		},
	}
}
