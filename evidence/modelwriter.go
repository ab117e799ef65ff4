package evidence

import (
	"bufio"
	"errors"
	"io"
	"iter"
	"os"
	"path/filepath"

	"github.com/waza-isolate/waza/evidence/redact"
)

// ModelCall records c, whose number and times are its caller's. Lines stand in the order
// in which calls ended.
func (r *Recorder) ModelCall(c ModelCall) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.noteLocked(r.modelCallLocked(c))
}

func (r *Recorder) modelCallLocked(c ModelCall) (err error) {
	if r.models == nil {
		if r.models, err = os.OpenFile(filepath.Join(r.dir, ModelsFile), os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o644); err != nil {
			return err
		}
	}
	out := bufio.NewWriterSize(r.models, 64<<10)
	found, err := c.write(out, r.secrets, r.limit)
	r.noteRedactedLocked(ModelsFile, found, nil)
	_ = out.WriteByte('\n') // what fails fails at Flush
	return errors.Join(err, out.Flush())
}

// write writes c as [ModelCall.MarshalJSON] does, with the secrets taken out of it. Its
// bytes go out piece by piece and are never held a second time, and limit bytes of
// each are kept. It returns what it replaced.
func (c ModelCall) write(w io.Writer, secrets *redact.Set, limit int) (all redact.Found, err error) {
	rest := struct {
		Truncated int64 `json:"truncated,omitempty"`
		Redacted  int   `json:"redacted,omitempty"`
	}{c.Truncated, c.Redacted}
	c.Truncated, c.Redacted = 0, 0
	head, err := Marshal(modelHead(c))
	if err != nil {
		return all, err
	}
	head, found := secrets.JSON(head)
	all.Add(found)
	if _, err := w.Write(head[:len(head)-1]); err != nil {
		return all, err
	}
	for _, part := range []struct {
		name string
		raw  []byte
	}{{"request", c.Request}, {"response", c.Response}} {
		if part.raw == nil {
			continue
		}
		found, over, err := writeBytes(w, part.name, part.raw, secrets, limit)
		if err != nil {
			return all, err
		}
		all.Add(found)
		rest.Truncated += over
	}
	rest.Redacted += all.Spans
	tail, err := Marshal(rest)
	if err != nil {
		return all, err
	}
	if string(tail) != "{}" {
		tail[0] = ','
	} else {
		tail = tail[1:]
	}
	_, err = w.Write(tail)
	return all, err
}

// ModelCalls reads models.jsonl in the order of its lines; a trial in which no model was
// asked has no such file, and none.
func (d Dir) ModelCalls() iter.Seq2[ModelCall, error] {
	return func(yield func(ModelCall, error) bool) {
		for call, err := range readLines[ModelCall](d, ModelsFile) {
			if errors.Is(err, os.ErrNotExist) || !yield(call, err) {
				return
			}
		}
	}
}
