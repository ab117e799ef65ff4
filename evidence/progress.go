package evidence

import (
	"bytes"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/waza-isolate/waza/evidence/secret"
	"github.com/waza-isolate/waza/internal/files"
	"github.com/waza-isolate/waza/internal/text"
)

// ProgressFile is the file in a run's directory that records the phases of its trials as
// they happen.
const ProgressFile = "progress.jsonl"

// Progress is a line of progress.jsonl, written when a trial enters another phase.
type Progress struct {
	Time    time.Time `json:"t"`
	Task    string    `json:"task"`
	Number  int       `json:"number"`  // from 1
	Attempt int       `json:"attempt"` // from 1
	Phase   Phase     `json:"phase"`
	Class   Class     `json:"outcome,omitempty"` // for phases that end an attempt
	Reason  Reason    `json:"reason,omitempty"`
	Message string    `json:"message,omitempty"` // first line only
}

// ID returns the trial's id in its run.
func (p Progress) ID() TrialID { return TrialID{p.Task, p.Number} }

// valid reports whether the line names a trial and a phase.
func (p Progress) valid() bool { return p.Task != "" && p.Number > 0 && p.Phase != "" }

const (
	// maxProgressLine is the maximum length of a line that is read, in bytes.
	maxProgressLine = 16 << 10
	// maxProgressMessage is the length to which messages are shortened.
	maxProgressMessage = 500
)

// ProgressLog writes progress.jsonl. It is safe for concurrent use.
type ProgressLog struct {
	secrets *secret.Set
	clock   *Clock

	mu   sync.Mutex
	file *os.File // guarded by mu
}

// OpenProgress opens the progress.jsonl of the run in dir for appending, creating it if
// necessary. An incomplete line left by an earlier process is terminated.
func OpenProgress(dir string, secrets *secret.Set) (*ProgressLog, error) {
	file, err := files.Create(filepath.Join(dir, ProgressFile), os.O_RDWR|os.O_APPEND)
	if err != nil {
		return nil, explained(err)
	}
	if err := endLine(file); err != nil {
		return nil, errors.Join(explained(err), file.Close())
	}
	return &ProgressLog{secrets: secrets, clock: StartClock(time.Now()), file: file}, nil
}

// endLine terminates the last line of a file that is open for appending.
func endLine(file *os.File) error {
	size, err := regularSize(file)
	if err != nil || size == 0 {
		return err
	}
	var last [1]byte
	if _, err := file.ReadAt(last[:], size-1); err != nil || last[0] == '\n' {
		return err
	}
	_, err = file.WriteString("\n")
	return err
}

// Append writes p as a line with the current time. Of its message it writes the first line,
// without secrets.
func (l *ProgressLog) Append(p Progress) error {
	p.Message = text.Shorten(text.FirstLine(l.secrets.String(p.Message)), maxProgressMessage)
	l.mu.Lock()
	defer l.mu.Unlock()
	p.Time = l.clock.Now()
	line, err := Marshal(p)
	if err != nil {
		return err
	}
	_, err = l.file.Write(append(line, '\n'))
	return explained(err)
}

// Close closes the log.
func (l *ProgressLog) Close() error { return l.file.Close() }

// ParseProgress parses lines of progress.jsonl. It skips lines without a phase, such as
// incomplete ones, and lines of more than 16 KiB.
func ParseProgress(lines []byte) (all []Progress) {
	for line := range bytes.SplitSeq(lines, []byte("\n")) {
		var p Progress
		if len(line) <= maxProgressLine && json.Unmarshal(line, &p) == nil && p.valid() {
			all = append(all, p)
		}
	}
	return all
}

// regularSize returns the size of an open file, or an error if it is not a regular file.
func regularSize(file *os.File) (int64, error) {
	info, err := file.Stat()
	if err != nil {
		return 0, err
	}
	if !info.Mode().IsRegular() {
		return 0, &fs.PathError{Op: "read", Path: file.Name(), Err: errors.New("not a regular file")}
	}
	return info.Size(), nil
}

// Phase is the phase of a trial.
type Phase string

const (
	PhaseStart   Phase = "starting"
	PhaseProbe   Phase = "probing servers"
	PhaseAgent   Phase = "agent at work"
	PhaseCollect Phase = "collecting"
	PhaseJudge   Phase = "asking the judge"
	PhaseAgain   Phase = "once more" // after infra, or after a failure with attempts left
	PhaseDone    Phase = "done"
)
