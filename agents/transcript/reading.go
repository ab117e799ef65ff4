package transcript

import (
	"github.com/waza-isolate/waza/evidence"
	"github.com/waza-isolate/waza/internal/jsontext"
)

// reading is a transcript on its way to events.
type reading struct {
	report Report
	emit   func(evidence.TranscriptEvent) error
	pieces []byte // of a message that may go on; empty for none
}

func (r *reading) line(s Source, line []byte, number int) error {
	if s.Format == FormatWaza {
		var event evidence.TranscriptEvent
		if err := jsontext.Unmarshal(line, &event); err != nil {
			r.report.unread(number, "%v", err)
			return nil
		}
		return r.tell(event)
	}
	for i, rule := range s.Events {
		for found := range rule.in(line) {
			event, err := rule.event(found)
			switch {
			case err != nil:
				r.report.unread(number, "events[%d]: %v", i, err)
			case rule.Type == Message && event.Content == "", rule.Type == Usage && event.Usage == nil: // nothing is said
			case rule.Joined:
				r.piece(event.Content, number)
			default:
				if err := r.tell(event); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// piece adds to the message that is being told.
func (r *reading) piece(text string, line int) {
	if len(r.pieces)+len(text) > maxLine {
		r.report.unread(line, "a message longer than %d bytes", maxLine)
		return
	}
	r.pieces = append(r.pieces, text...)
}

// tell hands an event on, behind the message that it ends.
func (r *reading) tell(event evidence.TranscriptEvent) error {
	if err := r.endMessage(); err != nil {
		return err
	}
	if event.Type != evidence.AssistantUsage { // which tells nothing of what was done
		r.report.Events++
	}
	return r.emit(event)
}

func (r *reading) endMessage() error {
	if len(r.pieces) == 0 {
		return nil
	}
	text := string(r.pieces)
	r.pieces = r.pieces[:0]
	r.report.Events++
	return r.emit(evidence.TranscriptEvent{Type: evidence.AssistantMessage, Content: text})
}
