package proxy

import (
	"context"
	"errors"

	"github.com/waza-isolate/waza/evidence"
)

// Inspect opens a session with a server that is looked at by itself, as [OpenClientSession] does,
// and records every message of it as a frame. The server may send as many as to an agent.
func Inspect(ctx context.Context, rec Recorder, limits Limits, s Server) (*ClientSession, error) {
	p, err := newInquirer(rec, limits, s)
	if err != nil {
		return nil, err
	}
	p.refusal = "the server is inspected, and nobody answers it"
	p.tape = &tape{rec: rec, server: s.Name, allowed: newAllowance(p.server, nil), notes: p.notes}
	return p.inquire(ctx)
}

// tape records a conversation.
type tape struct {
	rec     Recorder
	server  string
	allowed *allowance
	notes   *notes
}

func (t *tape) record(dir evidence.Direction, raw []byte) {
	t.rec.Frame(evidence.Frame{Server: t.server, Conn: t.server + "/inspect", Dir: dir, Raw: raw})
}

// hear records what the server said. It fails where that is more than it may.
func (t *tape) hear(raw []byte) error {
	_, err := parse(raw)
	if !t.allowed.heard.take(1, int64(len(raw))) {
		return errFlooded
	}
	if err != nil {
		t.notes.add("stdout_noise", clip(raw), map[string]any{"bytes": len(raw)})
		return nil
	}
	t.record(evidence.ToClient, raw)
	return nil
}

// why is what an error of a conversation says beside the server's name and what the
// server wrote to stderr.
func why(err error) string {
	failed, ok := errors.AsType[*ProbeError](err)
	if !ok {
		return err.Error()
	}
	if failed.Cause == nil {
		return failed.Class.Error()
	}
	return failed.Class.Error() + ": " + failed.Cause.Error()
}
