package evidence

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/waza-isolate/waza/evidence/redact"
	"github.com/waza-isolate/waza/internal/bounded"
	"github.com/waza-isolate/waza/internal/defence"
)

// maxFrame is how many bytes of one frame are kept.
const maxFrame = 64 << 20

// Recorder writes one trial's evidence as it happens. It is safe for concurrent
// use. A failed write does not disturb the trial that is recorded: the first one is remembered
// and returned by Close, and the trial then ends as infra.
type Recorder struct {
	dir     string
	secrets *redact.Set
	clock   *Clock
	limit   int // bytes kept of one frame
	frames  *os.File
	events  *os.File

	mu     sync.Mutex
	out    *bufio.Writer // to frames, flushed behind each; guarded by mu
	steps  *os.File      // nil before the first; guarded by mu
	models *os.File      // likewise; guarded by mu
	seq    int64         // guarded by mu
	err    error         // guarded by mu

	redacted map[string]redact.Found   // by file; guarded by mu
	inTrees  map[string]map[string]int // of those that are trees; guarded by mu
}

// Create makes dir, which must not hold evidence already, reserves disk space for what is
// written at the trial's end, and starts recording. Every secret in secrets is replaced in all
// that is written. Times are those of clock; a nil clock starts now.
func Create(dir string, secrets *redact.Set, clock *Clock) (*Recorder, error) {
	if clock == nil {
		clock = StartClock(time.Now())
	}
	if err := os.MkdirAll(filepath.Join(dir, ServersDir), 0o755); err != nil {
		return nil, explained(err)
	}
	if err := keepRoom(dir); err != nil {
		return nil, err
	}
	frames, err := newFile(dir, FramesFile)
	if err != nil {
		return nil, explained(err)
	}
	events, err := newFile(dir, EventsFile)
	if err != nil {
		return nil, errors.Join(explained(err), frames.Close())
	}
	return &Recorder{
		dir: dir, secrets: secrets, clock: clock, limit: maxFrame,
		frames: frames, events: events, out: bufio.NewWriterSize(frames, 64<<10),
	}, nil
}

// newFile makes a file of a trial, which must not be there yet.
func newFile(dir, name string) (*os.File, error) {
	return os.OpenFile(filepath.Join(dir, name), os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o644)
}

// Now returns the time by the trial's clock.
func (r *Recorder) Now() time.Time { return r.clock.Now() }

// Dir returns the trial's directory.
func (r *Recorder) Dir() string { return r.dir }

// Frame records f under the next number and the time. It returns the number.
func (r *Recorder) Frame(f Frame) int64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.seq++
	if !defence.RecordedFrames {
		return r.seq
	}
	f.Seq, f.Time = r.seq, r.clock.Now()
	found, err := f.write(r.out, r.secrets, r.limit)
	r.noteRedactedLocked(FramesFile, found, nil)
	_ = r.out.WriteByte('\n') // what fails fails at Flush
	r.noteLocked(errors.Join(err, r.out.Flush()))
	return f.Seq
}

// Event records e under the time. Texts of strangers in it may have been cut short, by
// [text.Shorten].
func (r *Recorder) Event(e Event) {
	r.mu.Lock()
	defer r.mu.Unlock()
	e.Time = r.clock.Now()
	line, found, err := cleanLine(e, r.secrets.CutJSON)
	r.noteRedactedLocked(EventsFile, found, nil)
	if err == nil {
		_, err = r.events.Write(line)
	}
	r.noteLocked(err)
}

// ModelCall records c, whose number and times are its caller's. Lines stand in the order
// in which calls ended.
func (r *Recorder) ModelCall(c ModelCall) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.noteLocked(r.modelCallLocked(c))
}

func (r *Recorder) modelCallLocked(c ModelCall) (err error) {
	if r.models == nil {
		if r.models, err = newFile(r.dir, ModelsFile); err != nil {
			return err
		}
	}
	out := bufio.NewWriterSize(r.models, 64<<10)
	found, err := c.write(out, r.secrets, r.limit)
	r.noteRedactedLocked(ModelsFile, found, nil)
	_ = out.WriteByte('\n') // what fails fails at Flush
	return errors.Join(err, out.Flush())
}

// Observed writes observed.jsonl, redacted.
func (r *Recorder) Observed(all []Observed) error {
	out, err := r.Raw(ObservedFile)
	if err != nil {
		return err
	}
	for _, o := range all {
		var made []byte
		var found redact.Found
		if made, found, err = cleanLine(o, r.secrets.CutJSON); err != nil {
			break
		}
		r.noteRedacted(ObservedFile, found, nil)
		if _, err = out.Write(made); err != nil {
			break
		}
	}
	return r.note(errors.Join(err, out.Close()))
}

// Step records a step. Its Ask and its Answer are JSON. The Ask is not redacted: it comes from a
// grader's config, which trial.json has too, and graders find their answer by it.
func (r *Recorder) Step(s Step) error {
	answer, found := r.secrets.JSON(s.Answer)
	failure, inError := r.secrets.Bytes([]byte(s.Error))
	found.Add(inError)
	s.Answer, s.Error = answer, string(failure)
	r.noteRedacted(StepsFile, found, nil)
	line, err := Marshal(s)
	if err != nil {
		return r.note(err)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.steps == nil {
		if r.steps, err = newFile(r.dir, StepsFile); err != nil {
			r.noteLocked(err)
			return explained(err)
		}
	}
	_, err = r.steps.Write(append(line, '\n'))
	r.noteLocked(err)
	return explained(err)
}

// WriteTranscript writes e, which the agent reported, to out as a line of transcript.jsonl, redacted.
func (r *Recorder) WriteTranscript(out io.Writer, e TranscriptEvent) error {
	line, found, err := cleanLine(e, r.secrets.JSON)
	if err != nil {
		return err
	}
	r.noteRedacted(TranscriptFile, found, nil)
	_, err = out.Write(line)
	return err
}

// cleanLine returns v as a line of JSON, cleaned of secrets, and what that replaced.
func cleanLine(v any, clean func([]byte) ([]byte, redact.Found)) ([]byte, redact.Found, error) {
	made, err := Marshal(v)
	if err != nil {
		return nil, redact.Found{}, err
	}
	made, found := clean(made)
	return append(made, '\n'), found, nil
}

// Raw opens a file of the trial for bytes that must not be changed.
func (r *Recorder) Raw(name string) (io.WriteCloser, error) {
	file, err := os.OpenFile(filepath.Join(r.dir, name), os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o644)
	if err != nil {
		return nil, r.note(err)
	}
	return recordedFile{file, r}, nil
}

// recordedFile is a file of a trial. The recorder remembers its first failed write, even if
// the writer ignores the error.
type recordedFile struct {
	file *os.File
	rec  *Recorder
}

// Write implements [io.Writer].
func (f recordedFile) Write(p []byte) (int, error) {
	n, err := f.file.Write(p)
	return n, f.rec.note(err)
}

// Close implements [io.Closer].
func (f recordedFile) Close() error { return f.rec.note(f.file.Close()) }

// Text opens a file of the trial for text, redacted on the way.
func (r *Recorder) Text(name string) (io.WriteCloser, error) {
	file, err := r.Raw(name)
	if err != nil {
		return nil, err
	}
	out := redact.NewWriter(r.secrets, file)
	return redactedFile{out, func() { r.noteRedacted(filepath.ToSlash(name), out.Found(), nil) }}, nil
}

// Tree opens a file of the trial for a tree as tar, with asterisks in place of
// secrets.
func (r *Recorder) Tree(name string) (io.WriteCloser, error) {
	file, err := r.Raw(name)
	if err != nil {
		return nil, err
	}
	out := redact.NewTarWriter(r.secrets, file)
	return redactedFile{out, func() { r.noteRedacted(name, out.Found(), out.Files()) }}, nil
}

// redactedFile is a file of a trial whose writer removes secrets.
type redactedFile struct {
	io.WriteCloser
	closed func() // notes what was redacted
}

// Close implements [io.Closer].
func (f redactedFile) Close() error {
	err := f.WriteCloser.Close()
	f.closed()
	return err
}

// ServerLog opens the file for what server name writes to its stderr.
func (r *Recorder) ServerLog(name string) (io.WriteCloser, error) {
	return r.Text(filepath.Join(ServersDir, name+".stderr"))
}

// ServiceLog opens the file for what a service of a server writes to its stdout or
// stderr.
func (r *Recorder) ServiceLog(server, service, stream string) (io.WriteCloser, error) {
	return r.Text(filepath.Join(ServersDir, server+"."+service+"."+stream))
}

// Clean writes a text, or a JSON document, to w with secrets replaced as in all evidence.
func (r *Recorder) Clean(w io.Writer, doc []byte) error {
	_, err := r.secrets.WriteJSON(w, doc)
	return err
}

// Redaction counts what was removed from one file of a trial.
type Redaction struct {
	Spans int `json:"spans"`
	// Secrets counts the spans by secret, as SERVER/NAME. Secrets without a name count in Spans
	// alone.
	Secrets map[string]int `json:"secrets,omitempty"`
	// Files counts the spans in the files of a tree by name, as [redact.TarWriter.Files]
	// has it.
	Files map[string]int `json:"files,omitempty"`
}

// noteRedacted records what was found in a file of the trial.
func (r *Recorder) noteRedacted(name string, found redact.Found, files map[string]int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.noteRedactedLocked(name, found, files)
}

func (r *Recorder) noteRedactedLocked(name string, found redact.Found, files map[string]int) {
	if found.Spans == 0 {
		return
	}
	if r.redacted == nil {
		r.redacted = map[string]redact.Found{}
		r.inTrees = map[string]map[string]int{}
	}
	all := r.redacted[name]
	all.Add(found)
	r.redacted[name] = all
	if len(files) > 0 {
		r.inTrees[name] = files
	}
}

// Redacted returns what was removed from the trial's files so far, by their names. Files that
// are still open as text or trees are not counted yet.
func (r *Recorder) Redacted() map[string]Redaction {
	r.mu.Lock()
	defer r.mu.Unlock()
	all := make(map[string]Redaction, len(r.redacted))
	for name, found := range r.redacted {
		all[name] = Redaction{found.Spans, maps.Clone(found.Secrets), maps.Clone(r.inTrees[name])}
	}
	return all
}

// note remembers the first error of any write, and returns err explained.
func (r *Recorder) note(err error) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.noteLocked(err)
	return explained(err)
}

func (r *Recorder) noteLocked(err error) {
	if err != nil && r.err == nil {
		r.err = explained(err)
	}
}

// CopyTo copies the frames, model calls and events recorded so far into the files of another
// recorder, which are empty. It fails if they do not fit into the share.
func (r *Recorder) CopyTo(to *Recorder, share *bounded.Budget) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	to.mu.Lock()
	defer to.mu.Unlock()
	for _, name := range []string{FramesFile, EventsFile, ModelsFile} {
		if err := copyInto(filepath.Join(to.dir, name), filepath.Join(r.dir, name), share); err != nil {
			return explained(err)
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

// Close syncs what was recorded, gives the reserved disk space back, and returns the first
// error of any write.
func (r *Recorder) Close() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	errs := []error{r.err}
	files := []*os.File{r.frames, r.events}
	for _, file := range []*os.File{r.steps, r.models} {
		if file != nil {
			files = append(files, file)
		}
	}
	for _, file := range files {
		errs = append(errs, explained(file.Sync()), explained(file.Close()))
	}
	return errors.Join(append(errs, dropRoom(r.dir))...)
}

// Clock gives the times of one trial or run: the machine's time at its start plus the monotonic
// time since then. Times are in order, and differences are real durations, even if the machine's
// clock is set meanwhile.
type Clock struct {
	start time.Time
	began time.Time // the start too, as the monotonic clock has it
}

// StartClock starts a clock at wall, which is what the machine's clock says.
func StartClock(wall time.Time) *Clock {
	return &Clock{start: wall.UTC(), began: time.Now()}
}

// Now returns the time by the clock, in UTC.
func (c *Clock) Now() time.Time { return c.start.Add(time.Since(c.began)) }
