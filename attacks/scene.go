package attacks

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/waza-isolate/waza/attacks/part"
	"github.com/waza-isolate/waza/evidence"
	"github.com/waza-isolate/waza/results"
	"github.com/waza-isolate/waza/sandbox/probe"
)

// Run is a finished run of waza, and everything that judging its attacks needs.
type Run struct {
	ID         string // nonce of its attacks
	Dir        string // the run directory
	Waza       string // the executable
	Output     string // what waza wrote to stdout and stderr
	Exit       int    // -1 where a signal ended it
	PeakRSS    int64  // bytes of waza's own process
	Took       time.Duration
	Results    results.Results // empty where there is none
	Arrivals   []Arrival       // what reached listeners outside
	Left       []string        // containers, networks and volumes that still exist
	Alive      []string        // command lines of attackers' processes that still run
	Harmed     []string        // harmless trials that did not pass
	Neighbours int             // harmless trials in all
	Killed     bool            // it was ended by SIGKILL while it was attacked
	Browsed    string          // the text of the report, where a browser opened it
	Noted      []string        // what the page did that it must not

	shown     map[string]string // what waza prints of a task, once it was asked
	reported  *page             // its report, once it was read
	commented string            // what is said of it on a pull request, once waza was asked
	sites     map[string]site   // what is served of a task, once it was visited
}

// Arrival is an attack that reached a listener outside.
type Arrival struct {
	probe.Arrival
	At string // which listener
}

// Scene is an attack and the trial in which it took place.
type Scene struct {
	Run    *Run
	Attack string
	Task   string
	Dir    evidence.Dir // of the trial
}

// Words returns what attackers reported of this attack: in the agent's output, in results of
// servers' tools, and in the output of graders' programs.
func (s Scene) Words() []part.Word {
	said := s.File(evidence.StdoutFile) + "\n" + s.servers() + "\n" + s.programs()
	return slices.DeleteFunc(part.Hear(said), func(w part.Word) bool { return w.Attack != s.Attack })
}

// File returns the content of a file of the trial's directory; empty if there is none.
func (s Scene) File(name string) string {
	data, _ := os.ReadFile(filepath.Join(string(s.Dir), name))
	return string(data)
}

// servers returns the text that servers' tools answered.
func (s Scene) servers() string {
	var b strings.Builder
	calls, _ := s.Dir.Calls()
	for _, c := range calls {
		var result struct {
			Content []struct{ Text string }
		}
		raw, _ := c.Result.Raw()
		_ = json.Unmarshal(raw, &result) // what is no text says nothing
		for _, content := range result.Content {
			b.WriteString(content.Text + "\n")
		}
	}
	return b.String()
}

func (s Scene) programs() string {
	var b strings.Builder
	for line := range strings.Lines(s.File(evidence.StepsFile)) {
		var step struct {
			Answer struct{ Stdout evidence.Output }
		}
		_ = json.Unmarshal([]byte(line), &step)
		b.WriteString(step.Answer.Stdout.Text + "\n")
	}
	return b.String()
}

// Result returns the trial in the results; zero where it is not there.
func (s Scene) Result() results.RunResult { return s.Run.Trial(s.Task) }

// Trial returns the last attempt of a task's trial in the results.
func (r *Run) Trial(task string) results.RunResult {
	for _, t := range r.Results.Tasks {
		if t.TestID == task && len(t.Runs) > 0 {
			return t.Runs[0]
		}
	}
	return results.RunResult{}
}

// Arrived reports whether this attack reached a listener outside, and which one.
func (s Scene) Arrived() (bool, string) {
	from := part.Nonce(s.Run.ID, s.Task, "")
	for _, a := range s.Run.Arrivals {
		if a.Attack == s.Attack && strings.HasPrefix(a.Nonce, from) {
			return true, "it arrived at " + a.At + ", sent to " + a.Aim + " over " + a.Over
		}
	}
	return false, ""
}

// SaidSo judges an attack that leaves no trace outside, by what its program reported.
func SaidSo(s Scene) (bool, string) {
	var details []string
	for _, w := range s.Words() {
		if w.Won {
			return true, w.Detail
		}
		details = append(details, w.Detail)
	}
	return false, strings.Join(slices.Compact(details), "; ")
}

// ArrivedOrSaidSo judges an attack by arrivals and by what its program reported.
func ArrivedOrSaidSo(s Scene) (bool, string) {
	if won, detail := s.Arrived(); won {
		return won, detail
	}
	return SaidSo(s)
}

// HasReport reports whether an attacker reported anything of the attack.
func HasReport(s Scene) bool { return len(s.Words()) > 0 }
