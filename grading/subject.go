package grading

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/waza-isolate/waza/evidence"
	"github.com/waza-isolate/waza/evidence/capture"
	"github.com/waza-isolate/waza/evidence/secret"
	"github.com/waza-isolate/waza/internal/jsontext"
	"github.com/waza-isolate/waza/model/dialect"
)

// subject is one trial as graders see it.
type subject struct {
	dir      evidence.Dir
	trial    evidence.Trial
	servers  []string        // declared names
	recorded []evidence.Call // by their numbers, from 1
	calls    []evidence.Call // those that count: recorded without the superseded ones
	uses     []capture.Use   // calls that count, and builtin uses
	gaps     []capture.Gap   // in the frames
	reads    []capture.Read
	requests []capture.ServerRequest
	catalogs []evidence.Catalog
	changes  []evidence.Change // of servers' tools
	noFrames bool              // there is no file of frames
	// narration compares the agent's transcript with its calls. It is nil without a
	// transcript.
	narration *evidence.Narration

	// transcriptGap says why builtin uses are not known. It is nil if they are.
	transcriptGap error
	// noTranscript reports that the executor provides no transcript.
	noTranscript bool

	grader   string // name of the current grader
	steps    []evidence.Step
	stepsErr error // why the steps cannot be read
}

// open reads a trial's evidence and writes nothing. It records missing evidence for the graders that need it.
func open(dir evidence.Dir, trial evidence.Trial) (*subject, error) {
	s := &subject{dir: evidence.Dir(filepath.Clean(string(dir))), trial: trial}
	for _, server := range trial.Servers {
		s.servers = append(s.servers, server.Name)
	}
	captured, err := capture.Calls(s.dir.Frames())
	s.recorded, s.gaps = captured.Calls, captured.Gaps
	s.reads, s.requests, s.changes = captured.Reads, captured.Requests, changesOf(captured.Catalogs)
	if err != nil {
		s.gaps = append(s.gaps, capture.Gap{Why: s.explain(err)})
	}
	if why, lost := s.trial.Lost(evidence.GapFrames); lost {
		s.gaps = append(s.gaps, capture.Gap{Why: why})
	}
	for _, name := range s.servers {
		kind := evidence.GapFramesOf(name)
		if why, lost := s.trial.Lost(kind); lost {
			s.gaps = append(s.gaps, capture.Gap{Server: name, Why: strings.TrimPrefix(why, kind+": ")})
		}
	}
	tools := capture.Tools(s.servers, captured)
	captured.Gaps = s.gaps
	capture.Tie(captured, tools, s.models())
	s.catalogs, s.noFrames = captured.Catalogs, errors.Is(err, fs.ErrNotExist)
	s.steps, s.stepsErr = s.dir.Steps()
	transcript, left := s.transcript()
	s.calls = filter(s.recorded, func(call evidence.Call) bool { return !capture.Superseded(call) })
	paired := capture.Pair(tools, s.recorded, transcript)
	s.uses = paired.Counted()
	if left {
		n := s.narrate(paired, transcript)
		s.narration = &n
		return s, paired.Err()
	}
	return s, nil
}

// write writes the files that grading derives from the evidence.
func (s *subject) write() error {
	var errs []error
	if !s.noFrames {
		errs = append(errs, s.dir.WriteCalls(s.recorded), s.dir.WriteCatalogs(s.catalogs))
	}
	if s.narration != nil {
		errs = append(errs, s.dir.WriteNarration(*s.narration))
	}
	return errors.Join(errs...)
}

// changesOf returns the changes of all servers' tools, in order.
func changesOf(catalogs []evidence.Catalog) (all []evidence.Change) {
	for _, catalog := range catalogs {
		all = append(all, catalog.Changes...)
	}
	slices.SortStableFunc(all, func(a, b evidence.Change) int { return cmp.Compare(a.Frame, b.Frame) })
	return all
}

// of returns a copy of s for one grader.
func (s *subject) of(spec evidence.GraderSpec) *subject {
	own := *s
	own.grader = spec.Name
	return &own
}

// transcript reads the agent's transcript, or records why it cannot. left reports whether
// there is a transcript.
func (s *subject) transcript() (events []evidence.TranscriptEvent, left bool) {
	s.transcriptGap = s.kept(evidence.GapTranscript)
	if why, lost := s.trial.Lost(evidence.GapLines); lost { // the agent wrote them, or the mapping is wrong
		s.transcriptGap = cmp.Or(s.transcriptGap, fmt.Errorf("%w: %s", errEvidence, why))
	}
	_, err := os.Stat(filepath.Join(string(s.dir), evidence.TranscriptFile))
	if errors.Is(err, fs.ErrNotExist) {
		switch s.trial.Executor {
		case evidence.ExecutorScript:
			s.transcriptGap = cmp.Or(s.transcriptGap, fmt.Errorf("%w: the agent left no transcript", errEvidence))
		case evidence.ExecutorMock: // uses no tools
		default:
			s.noTranscript = true
		}
		return nil, false
	}
	transcript, err := s.dir.MarkedTranscript(s.trial.Redacted[evidence.TranscriptFile].Marks.Spans(""))
	if err != nil {
		s.transcriptGap = fmt.Errorf("%w: %s", errSpoilt, s.explain(err))
	}
	return transcript, true
}

// kept returns an error if evidence of a kind is missing. It is errSpoilt, since losses that the agent cannot
// cause end a trial as infra.
func (s *subject) kept(kind string) error {
	if why, lost := s.trial.Lost(kind); lost {
		return fmt.Errorf("%w: %s", errSpoilt, why)
	}
	return nil
}

// explain returns the text of an error without the path of the directory, which differs from
// machine to machine.
func (s *subject) explain(err error) string {
	return strings.ReplaceAll(err.Error(), string(s.dir)+string(filepath.Separator), "")
}

// seen returns an error if calls to one of the servers may be missing from the record. No
// servers means all.
func (s *subject) seen(servers ...string) error {
	for _, gap := range s.gaps {
		if len(servers) == 0 || gap.Server == "" || slices.Contains(servers, gap.Server) {
			missing := errEvidence
			if gap.OfAgent {
				missing = errSpoilt
			}
			return fmt.Errorf("%w: %s", missing, gap)
		}
	}
	return nil
}

// builtinsKnown returns an error if the agent's builtin uses are not known. An executor
// without a transcript is an error only for checks of builtin uses.
func (s *subject) builtinsKnown(builtinAlone bool) error {
	if builtinAlone && s.noTranscript {
		return fmt.Errorf("%w: executor %q gives no transcript, so builtin tools are not known", errEvidence, s.trial.Executor)
	}
	return s.transcriptGap
}

// models yields the trial's model calls, followed by an error if some are missing. It returns nil without a
// model gateway.
func (s *subject) models() iter.Seq2[evidence.ModelCall, error] {
	if !s.dir.Gateway(s.trial) {
		return nil
	}
	return func(yield func(evidence.ModelCall, error) bool) {
		for call, err := range s.dir.ModelCalls() {
			if !yield(call, err) {
				return
			}
		}
		if err := s.kept(evidence.GapModels); err != nil {
			yield(evidence.ModelCall{}, err)
		}
	}
}

// tokens returns the total tokens of the trial's model calls. It returns an error if they
// are not known.
func (s *subject) tokens() (dialect.Usage, error) {
	var total dialect.Usage
	models := s.models()
	if models == nil {
		return total, fmt.Errorf("%w: what the agent asked models was not recorded, so its tokens are not known; name its models in config.models", errEvidence)
	}
	for call, err := range models {
		switch {
		case err != nil:
			return total, fmt.Errorf("%w: %s", errEvidence, s.explain(err))
		case call.Usage != nil:
			total = total.Plus(*call.Usage)
		case call.IsTurn() && call.Status/100 == 2 && len(call.Response) > 0:
			return total, fmt.Errorf("%w: the provider reported no tokens of model call %d", errEvidence, call.Seq)
		}
	}
	return total, nil
}

// narrate compares the transcript with the calls. It omits conclusions that missing
// evidence leaves open: claims about calls that may not be recorded, and unreported calls
// if a part of the transcript is unreadable.
func (s *subject) narrate(paired *capture.Pairing, transcript []evidence.TranscriptEvent) evidence.Narration {
	n := paired.Narration()
	n.Tokens = s.transcriptTokens(transcript)
	for _, gap := range s.gaps {
		n.Gaps = append(n.Gaps, gap.String())
		n.Unbacked = slices.DeleteFunc(n.Unbacked, func(c evidence.Claim) bool {
			return gap.Server == "" || slices.ContainsFunc(c.Tools, func(ref evidence.ToolRef) bool { return ref.Server == gap.Server })
		})
	}
	if s.transcriptGap != nil {
		n.Gaps = append(n.Gaps, s.transcriptGap.Error())
		n.Unreported = nil
	}
	return n
}

// transcriptTokens returns the tokens that the transcript reports, or nil if it reports
// none.
func (s *subject) transcriptTokens(transcript []evidence.TranscriptEvent) *evidence.Tokens {
	var reported *evidence.Tokens
	for _, event := range transcript {
		if event.Usage == nil {
			continue
		}
		if reported == nil {
			reported = &evidence.Tokens{}
		}
		reported.Reported = reported.Reported.Plus(*event.Usage)
	}
	if reported == nil {
		return nil
	}
	if wire, err := s.tokens(); err == nil {
		reported.Wire = &wire
	}
	return reported
}

// Ask is a step to be executed for a grader after the agent has stopped. The grader sees only the recorded
// result.
type Ask struct {
	Grader string // its name
	Kind   string // as in [evidence.Step]
	// What is an evidence.ProgramAsk, an evidence.CallAsk or an evidence.FileAsk.
	What any
}

// Raw returns the request as recorded in a step.
func (a Ask) Raw() (json.RawMessage, error) { return evidence.Marshal(a.What) }

// asker is a grader that needs steps to be executed.
type asker interface {
	// asks lists the requested steps without duplicates.
	asks() []any
}

// Asks lists the steps that graders need, in the order of graders. A grader with an invalid
// config needs none; its verdict explains the error.
func Asks(specs []evidence.GraderSpec) []Ask {
	var all []Ask
	for spec, g := range readable(specs) {
		if needy, ok := g.(asker); ok {
			for _, what := range needy.asks() {
				all = append(all, askOf(spec.Name, what))
			}
		}
	}
	return all
}

func askOf(name string, what any) Ask {
	switch what.(type) {
	case evidence.CallAsk:
		return Ask{name, evidence.StepCall, what}
	case evidence.FileAsk:
		return Ask{name, evidence.StepFiles, what}
	}
	return Ask{name, evidence.StepProgram, what}
}

// answer decodes the result of a step of the grader. It returns an error if the step is
// missing or failed.
func (s *subject) answer(what, into any) error {
	ask := askOf(s.grader, what)
	if s.stepsErr != nil {
		return fmt.Errorf("%w: %s", errEvidence, s.explain(s.stepsErr))
	}
	raw, err := ask.Raw()
	if err != nil {
		return err
	}
	for _, step := range s.steps {
		if step.Grader != ask.Grader || step.Kind != ask.Kind || !jsontext.Same(step.Ask, raw) {
			continue
		}
		if step.Error != "" {
			return fmt.Errorf("%w: %s", errEvidence, step.Error)
		}
		if len(step.Spans) > 0 && ask.Kind != evidence.StepProgram {
			return removed(errEvidence, secret.Names(step.Spans), "the answer to what this grader asked")
		}
		if err := json.Unmarshal(step.Answer, into); err != nil {
			return fmt.Errorf("%w: %s: the answer to grader %q cannot be read: %v", errEvidence, evidence.StepsFile, ask.Grader, err)
		}
		return nil
	}
	return fmt.Errorf("%w: %s has no answer to what this grader asks: its config was changed since, or the trial ended before it was asked; run the trial again", errEvidence, evidence.StepsFile)
}

// events returns the trial's events.
func (s *subject) events() ([]evidence.Event, error) {
	events, err := s.dir.Events()
	if err != nil {
		return nil, fmt.Errorf("%w: %s", errEvidence, s.explain(err))
	}
	return events, nil
}

// reached returns the numbers of the injections that were delivered.
func (s *subject) reached() ([]int, error) {
	events, err := s.events()
	if err != nil {
		return nil, err
	}
	var numbers []int
	for _, e := range events {
		if number, ok := e.Data[evidence.DataInjection].(float64); ok && e.Kind == evidence.EventInjection {
			numbers = append(numbers, int(number))
		}
	}
	return numbers, nil
}

// lacking lists the servers that the grader names and the trial lacks.
func (s *subject) lacking(g grader) []string {
	about, ok := g.(Served)
	if !ok {
		return nil
	}
	return distinct(filter(about.Servers(), func(server string) bool { return !slices.Contains(s.servers, server) }), strings.Clone)
}
