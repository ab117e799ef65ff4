package attacks

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/waza-isolate/waza/evidence"
	"github.com/waza-isolate/waza/results"
	"github.com/waza-isolate/waza/sandbox/probe"
	"github.com/waza-isolate/waza/test/attacks/part"
)

// Run is a finished run of waza, with everything needed to judge its attacks.
type Run struct {
	ID         string // nonce of its attacks
	Dir        string // run directory
	Waza       string // path of the executable
	Output     string // stdout and stderr of waza
	Exit       int    // exit code; -1 after a signal
	PeakRSS    int64  // peak memory of the waza process, in bytes
	Took       time.Duration
	Results    results.Results // empty if there are none
	Arrivals   []Arrival       // attacks that reached listeners outside
	Left       []string        // containers, networks and volumes that still exist
	Alive      []string        // command lines of attackers' processes that still run
	Harmed     []string        // harmless trials that did not pass
	Neighbours int             // number of harmless trials
	Killed     bool            // killed with SIGKILL during the attack
	Browsed    string          // text of the report, if a browser opened it
	Noted      []string        // violations by the page in the browser

	shown     map[string]string // cached output of waza about a task
	reported  *page             // cached report
	commented string            // cached pull request comment
	sites     map[string]site   // cached pages of waza serve, by task
}

// Arrival is an attack that reached a listener outside.
type Arrival struct {
	probe.Arrival
	At string // listener
}

// Scene is an attack and the trial that contains it.
type Scene struct {
	Run    *Run
	Attack string
	Task   string
	Dir    evidence.Dir // of the trial
}

// Words returns the attackers' reports about this attack, from the agent's output, the
// results of tools and the output of graders' programs.
func (s Scene) Words() []part.Word {
	said := s.File(evidence.StdoutFile) + "\n" + s.servers() + "\n" + s.programs()
	return slices.DeleteFunc(part.Hear(said), func(w part.Word) bool { return w.Attack != s.Attack })
}

// File returns the content of a file in the trial's directory, or "".
func (s Scene) File(name string) string {
	data, _ := os.ReadFile(filepath.Join(string(s.Dir), name))
	return string(data)
}

// frames returns the content of the files of frames.
func (s Scene) frames() string {
	var b strings.Builder
	names, _ := s.Dir.FrameFiles()
	for _, name := range names {
		b.WriteString(s.File(name))
	}
	return b.String()
}

// sizeOfFrames returns the size of the files of frames in bytes.
func (s Scene) sizeOfFrames() (n int64) {
	names, _ := s.Dir.FrameFiles()
	for _, name := range names {
		n += s.sizeOf(name)
	}
	return n
}

// servers returns the text in the results of tools.
func (s Scene) servers() string {
	var b strings.Builder
	calls, _ := s.Dir.Calls()
	for _, c := range calls {
		var result struct {
			Content []struct{ Text string }
		}
		raw, _ := c.Result.Raw()
		_ = json.Unmarshal(raw, &result) // results without text are skipped
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

// Result returns the result of the trial, or the zero value.
func (s Scene) Result() results.RunResult { return s.Run.Trial(s.Task) }

// Trial returns the result of the last attempt of a task's trial, or the zero value.
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

// SaidSo judges an attack without external traces by the report of its program.
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

// ArrivedOrSaidSo judges an attack by arrivals and by the report of its program.
func ArrivedOrSaidSo(s Scene) (bool, string) {
	if won, detail := s.Arrived(); won {
		return won, detail
	}
	return SaidSo(s)
}

// HasReport reports whether an attacker sent any report about the attack.
func HasReport(s Scene) bool { return len(s.Words()) > 0 }
