package evidence

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"

	"github.com/waza-isolate/waza/internal/bounded"
)

// CheckpointsDir holds a directory for each checkpoint, by the number of its turn: the trial
// as it stood then, laid out like a trial, with the checkpoint's graders.
const CheckpointsDir = "checkpoints"

// Checkpoint is that a trial was graded between two turns of its conversation.
type Checkpoint struct {
	AfterTurn int  `json:"after_turn"`        // from 1, the prompt's own
	Stopped   bool `json:"stopped,omitempty"` // it did not pass, and the conversation ended there
}

// CheckpointVerdicts is what a checkpoint came to.
type CheckpointVerdicts struct {
	Checkpoint
	Verdicts
}

// Checkpoint is where the evidence up to the end of a turn lies.
func (d Dir) Checkpoint(turn int) Dir {
	return Dir(filepath.Join(string(d), CheckpointsDir, strconv.Itoa(turn)))
}

// CopyTo copies what was recorded of messages, models and events so far into another
// recorder's files, which are empty. What does not fit into the share is an error.
func (r *Recorder) CopyTo(to *Recorder, share *bounded.Budget) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	to.mu.Lock()
	defer to.mu.Unlock()
	for _, name := range []string{FramesFile, EventsFile, ModelsFile} {
		if err := copyInto(filepath.Join(to.dir, name), filepath.Join(r.dir, name), share); err != nil {
			return told(err)
		}
	}
	for name, found := range r.redacted {
		to.noteRedactedLocked(name, found, nil)
	}
	to.seq = r.seq
	return nil
}

func copyInto(to, from string, share *bounded.Budget) error {
	in, err := os.Open(from)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer func() { _ = in.Close() }()
	if info, err := in.Stat(); err != nil {
		return err
	} else if !share.Take(info.Size()) {
		return fmt.Errorf("%s does not fit into the agent's share of the disk once more", filepath.Base(from))
	}
	out, err := os.OpenFile(to, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o644)
	if err != nil {
		return err
	}
	_, err = io.Copy(out, in)
	return errors.Join(err, out.Close())
}
