package grading

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/waza-isolate/waza/capture"
	"github.com/waza-isolate/waza/evidence"
)

// subject is one trial as graders see it.
type subject struct {
	dir     evidence.Dir
	trial   evidence.Trial
	servers []string // declared names
	calls   []evidence.Call
	uses    []capture.Use // calls and builtin uses
	gaps    []capture.Gap // in the frames
	reads   []capture.Read
	changes []evidence.Change // of what servers tell of their tools
	// narration is what the agent tells of its calls, held against them; nil where it
	// leaves no transcript.
	narration *evidence.Narration

	// transcriptGap says why builtin uses are not known; nil if they are.
	transcriptGap error
	// noTranscript is set where the executor gives none.
	noTranscript bool

	grader   string // the name of the one that judges
	steps    []evidence.Step
	stepsErr error // why they cannot be read
}

// open reads a trial's evidence. What of it is missing is kept for the graders
// that need it.
func open(dir evidence.Dir, trial evidence.Trial) (*subject, error) {
	s := &subject{dir: evidence.Dir(filepath.Clean(string(dir))), trial: trial}
	for _, server := range trial.Servers {
		s.servers = append(s.servers, server.Name)
	}
	captured, err := capture.Calls(s.dir.Frames())
	s.calls, s.gaps = captured.Calls, captured.Gaps
	s.reads, s.changes = captured.Reads, captured.Changes
	if err != nil {
		s.gaps = append(s.gaps, capture.Gap{Why: s.explain(err)})
	}
	if why, lost := s.trial.Lost(evidence.GapFrames); lost {
		s.gaps = append(s.gaps, capture.Gap{Why: why})
	}
	tools := capture.Tools(s.servers, captured)
	captured.Gaps = s.gaps
	capture.Tie(captured, tools, s.models())
	if !errors.Is(err, fs.ErrNotExist) {
		if err := errors.Join(s.dir.WriteCalls(s.calls), s.dir.WriteCatalogs(captured.Catalogs())); err != nil {
			return nil, err
		}
	}
	s.steps, s.stepsErr = s.dir.Steps()
	transcript, left := s.transcript()
	paired := capture.Pair(tools, s.calls, transcript)
	s.uses = paired.Uses()
	if left {
		n := s.narrate(paired, transcript)
		s.narration = &n
		return s, s.dir.WriteNarration(n)
	}
	return s, nil
}

// of is s as a grader sees it.
func (s *subject) of(spec evidence.GraderSpec) *subject {
	own := *s
	own.grader = spec.Name
	return &own
}

// transcript reads what the agent tells, and remembers why where it cannot. left is
// whether there is a transcript.
func (s *subject) transcript() (events []evidence.TranscriptEvent, left bool) {
	s.transcriptGap = s.kept(evidence.GapTranscript)
	_, err := os.Stat(filepath.Join(string(s.dir), evidence.TranscriptFile))
	if errors.Is(err, fs.ErrNotExist) {
		switch s.trial.Executor {
		case "script":
			s.transcriptGap = cmp.Or(s.transcriptGap, fmt.Errorf("%w: the agent left no transcript", errEvidence))
		case "mock": // uses no tools
		default:
			s.noTranscript = true
		}
		return nil, false
	}
	transcript, err := s.dir.Transcript()
	if err != nil {
		s.transcriptGap = fmt.Errorf("%w: %s", errEvidence, s.explain(err))
	}
	return transcript, true
}

// kept fails where evidence of a kind is missing.
func (s *subject) kept(kind string) error {
	if why, lost := s.trial.Lost(kind); lost {
		return fmt.Errorf("%w: %s", errEvidence, why)
	}
	return nil
}

// explain is err's text without the directory's path, which differs from machine
// to machine.
func (s *subject) explain(err error) string {
	return strings.ReplaceAll(err.Error(), string(s.dir)+string(filepath.Separator), "")
}

// seen fails where calls to one of servers may have gone unseen; no servers means
// any.
func (s *subject) seen(servers ...string) error {
	for _, gap := range s.gaps {
		if len(servers) == 0 || gap.Server == "" || slices.Contains(servers, gap.Server) {
			return fmt.Errorf("%w: %s", errEvidence, gap)
		}
	}
	return nil
}

// told fails where the agent's builtin uses are not known. An executor that gives
// no transcript is no reason unless a check is about builtin uses alone.
func (s *subject) told(builtinAlone bool) error {
	if builtinAlone && s.noTranscript {
		return fmt.Errorf("%w: executor %q gives no transcript, so builtin tools are not known", errEvidence, s.trial.Executor)
	}
	return s.transcriptGap
}

func (s *subject) declared(server string) bool { return slices.Contains(s.servers, server) }
