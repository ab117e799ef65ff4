package runner

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"strings"

	"github.com/waza-isolate/waza/agents/transcript"
	"github.com/waza-isolate/waza/evidence"
	"github.com/waza-isolate/waza/internal/bounded"
	"github.com/waza-isolate/waza/sandbox"
)

// errNothingTold is what a mapping that fits nothing comes to, as does an agent that
// tells nothing: that is not known, and no account of having called nothing.
var errNothingTold = errors.New("no line tells of anything")

// keepTold reads what the agent tells where the eval says that it does, and keeps it
// as waza's events. What of it cannot be read is an event; where that may have told of
// a tool's use it is an error too, since the transcript is not whole. said is all that the
// agent said, a message below the other, or a little more of it than a final output has.
func (tr *trialRun) keepTold(source transcript.Source) (said string, err error) {
	file, err := tr.rec.Raw(evidence.TranscriptFile)
	if err != nil {
		return "", err
	}
	out, events := &bounded.Head{W: file, Limit: maxTranscript, Share: tr.shares.agent, Fail: errTooLarge}, 0
	var messages strings.Builder
	err = tr.openTold(source.From, func(in io.Reader) error {
		report, err := source.Read(in, func(e evidence.TranscriptEvent) error {
			if e.Type == evidence.AssistantMessage && e.Content != "" && messages.Len() <= maxFinal {
				if messages.Len() > 0 {
					messages.WriteByte('\n')
				}
				messages.WriteString(e.Content)
			}
			return tr.rec.Told(out, e)
		})
		events = report.Events
		return errors.Join(tr.tellReading(source, report), err)
	})
	if err == nil && events == 0 {
		err = errNothingTold
	}
	err = errors.Join(err, file.Close())
	if events == 0 {
		err = errors.Join(err, os.Remove(tr.file(evidence.TranscriptFile)))
	}
	return messages.String(), err
}

// openTold has the place read where the agent tells.
func (tr *trialRun) openTold(from string, read func(io.Reader) error) error {
	name, ofAgent := map[string]string{"stdout": evidence.StdoutFile, "stderr": evidence.StderrFile}[from]
	if !ofAgent {
		return fileInTree(tr.file(evidence.WorkspaceFile), path.Clean(from), read)
	}
	file, err := os.Open(tr.file(name))
	if err != nil {
		return err
	}
	defer func() { _ = file.Close() }()
	return read(file)
}

// tellReading records what of a transcript was passed over, and fails where it may
// have told of something.
func (tr *trialRun) tellReading(source transcript.Source, r transcript.Report) error {
	event := func(kind, format string, args ...any) {
		message := fmt.Sprintf("transcript in %s: ", source.From) + fmt.Sprintf(format, args...)
		tr.rec.Event(evidence.Event{Kind: kind, Where: sandbox.Agent, Message: message})
	}
	if r.Ignored > 0 {
		event("transcript_noise", "%d line(s) are no JSON objects", r.Ignored)
	}
	if r.Torn {
		event("gap", "the last line is cut off")
	}
	for _, why := range r.Why {
		event("gap", "%s", why)
	}
	if r.Unread > 0 {
		return fmt.Errorf("%d line(s) cannot be read, the first: %s", r.Unread, r.Why[0])
	}
	return nil
}
