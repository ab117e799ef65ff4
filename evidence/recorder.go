package evidence

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/waza-isolate/waza/evidence/secret"
	"github.com/waza-isolate/waza/internal/bounded"
	"github.com/waza-isolate/waza/internal/defence"
	"github.com/waza-isolate/waza/internal/files"
)

// maxFrame is the maximum number of bytes stored of one frame.
const maxFrame = 64 << 20

// Recorder writes one trial's evidence as it happens. It is safe for concurrent use. A
// failed write does not interrupt the trial: Close returns the first one, and the trial
// then ends as infra.
type Recorder struct {
	dir     string
	secrets *secret.Set
	clock   *Clock
	limit   int   // maximum bytes stored of one frame
	half    int64 // maximum bytes of a server's frames in one direction

	mu    sync.Mutex
	files map[string]*os.File // by name, each from its first record on; guarded by mu
	out   *bufio.Writer       // to the file of a frame, flushed after each; guarded by mu
	seq   int64               // guarded by mu
	err   error               // guarded by mu

	used map[way]int64    // bytes of frames; guarded by mu
	lost map[string]error // by kind of gap; guarded by mu

	redacted map[string]Redaction // by file; guarded by mu
}

// way is a direction of messages of one server.
type way struct {
	server string
	dir    Direction
}

// Create creates dir, which must not contain evidence, reserves disk space for the files
// written at the end of the trial, and starts recording. Secrets are replaced in everything
// written. Times are taken from clock; nil means a clock that starts now.
func Create(dir string, secrets *secret.Set, clock *Clock) (*Recorder, error) {
	if clock == nil {
		clock = StartClock(time.Now())
	}
	for _, part := range []string{ServersDir, FramesDir} {
		if err := files.MakeDir(filepath.Join(dir, part)); err != nil {
			return nil, explained(err)
		}
	}
	if err := reserveSpace(dir); err != nil {
		return nil, err
	}
	r := &Recorder{
		dir: dir, secrets: secrets, clock: clock, limit: maxFrame, half: MaxFrames / 2, files: map[string]*os.File{},
		out: bufio.NewWriterSize(nil, 64<<10), used: map[way]int64{}, lost: map[string]error{},
	}
	if _, err := r.fileLocked(EventsFile); err != nil {
		return nil, explained(err)
	}
	return r, nil
}

// fileLocked returns a file of records. The first call creates the file, which must not exist before.
func (r *Recorder) fileLocked(name string) (*os.File, error) {
	if file := r.files[name]; file != nil {
		return file, nil
	}
	file, err := files.Create(filepath.Join(r.dir, name), os.O_EXCL|os.O_WRONLY)
	if err != nil {
		return nil, err
	}
	r.files[name] = file
	return file, nil
}

// Now returns the time of the trial's clock.
func (r *Recorder) Now() time.Time { return r.clock.Now() }

// Dir returns the trial's directory.
func (r *Recorder) Dir() string { return r.dir }

// Frame records f with the next number and the current time. It returns the number, or 0 if the file of the
// server's frames is full, which is a gap of this server only.
func (r *Recorder) Frame(f Frame) int64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	at := way{f.Server, f.Dir}
	size := quoted(f.Raw) + frameCost
	if r.used[at]+size > r.half {
		r.lost[GapFramesOf(f.Server)] = fmt.Errorf("its file has no room for more, %d MiB each way", r.half>>20)
		return 0
	}
	r.seq++
	if !defence.RecordedFrames {
		return r.seq
	}
	r.used[at] += size
	f.Seq, f.Time = r.seq, r.clock.Now()
	r.noteLocked(r.frameLocked(f))
	return f.Seq
}

func (r *Recorder) frameLocked(f Frame) error {
	name := FramesOf(f.Server)
	file, err := r.fileLocked(name)
	if err != nil {
		return err
	}
	r.out.Reset(file)
	found, err := f.write(r.out, r.secrets, r.limit)
	r.noteRedactedLocked(name, found, nil, nil)
	_ = r.out.WriteByte('\n') // a failure is reported by Flush
	return errors.Join(err, r.out.Flush())
}

// Lost returns why frames are missing, by kind of gap.
func (r *Recorder) Lost() map[string]error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return maps.Clone(r.lost)
}

// Event records e with the current time. Texts that it quotes from others may have been cut before; see
// [secret.Set.Cut].
func (r *Recorder) Event(e Event) {
	r.mu.Lock()
	defer r.mu.Unlock()
	e.Time = r.clock.Now()
	line, found, err := cleanLine(e, r.cut)
	r.noteRedactedLocked(EventsFile, found, nil, nil)
	if err == nil {
		_, err = r.files[EventsFile].Write(line)
	}
	r.noteLocked(err)
}

// ModelCall records c, whose number and times are set by the caller. Calls are written in
// the order in which they end.
func (r *Recorder) ModelCall(c ModelCall) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.noteLocked(r.modelCallLocked(c))
}

func (r *Recorder) modelCallLocked(c ModelCall) error {
	file, err := r.fileLocked(ModelsFile)
	if err != nil {
		return err
	}
	out := bufio.NewWriterSize(file, 64<<10)
	found, err := c.write(out, r.secrets, r.limit)
	r.noteRedactedLocked(ModelsFile, found, nil, nil)
	_ = out.WriteByte('\n') // a failure is reported by Flush
	return errors.Join(err, out.Flush())
}

// Observed writes observed.jsonl without secrets.
func (r *Recorder) Observed(all []Observed) error {
	out, err := r.Raw(ObservedFile)
	if err != nil {
		return err
	}
	for _, o := range all {
		var made []byte
		var found secret.Found
		if made, found, err = cleanLine(o, r.cut); err != nil {
			break
		}
		r.noteRedacted(ObservedFile, found, nil, nil)
		if _, err = out.Write(made); err != nil {
			break
		}
	}
	return r.note(errors.Join(err, out.Close()))
}

// Step records a step without secrets. Its Ask and Answer are JSON.
func (r *Recorder) Step(s Step) error {
	s, found := s.Cleaned(r.secrets)
	r.noteRedacted(StepsFile, found, nil, nil)
	line, err := Marshal(s)
	if err != nil {
		return r.note(err)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	file, err := r.fileLocked(StepsFile)
	if err == nil {
		_, err = file.Write(append(line, '\n'))
	}
	r.noteLocked(err)
	return explained(err)
}

// WriteTranscript writes e to out as a line of transcript.jsonl without secrets, and returns the line's
// length. offset is the offset of the line in the file. If e was made from a text in which secrets have
// already been replaced, from holds the spans of these.
func (r *Recorder) WriteTranscript(out io.Writer, e TranscriptEvent, offset int, from []secret.Span) (n int, err error) {
	line, found, err := cleanLine(e, r.secrets.JSON)
	if err != nil {
		return 0, err
	}
	var marks secret.Marks
	for _, p := range append(found.Where, secret.Kept(string(line), from)...) {
		p.At += offset
		marks.Add("", false, p)
	}
	r.noteRedacted(TranscriptFile, found, marks, nil)
	return out.Write(line)
}

// cut replaces secrets in a document whose texts may have been cut.
func (r *Recorder) cut(doc []byte) ([]byte, secret.Found) { return r.secrets.Cut(doc, true) }

// cleanLine returns v as a line of JSON without secrets, and what was replaced.
func cleanLine(v any, clean func([]byte) ([]byte, secret.Found)) ([]byte, secret.Found, error) {
	made, err := Marshal(v)
	if err != nil {
		return nil, secret.Found{}, err
	}
	made, found := clean(made)
	return append(made, '\n'), found, nil
}

// Raw creates a file of the trial for bytes that must not be changed.
func (r *Recorder) Raw(name string) (io.WriteCloser, error) {
	file, err := files.Create(filepath.Join(r.dir, name), os.O_TRUNC|os.O_WRONLY)
	if err != nil {
		return nil, r.note(err)
	}
	return recordedFile{file, r}, nil
}

// recordedFile is a file of a trial whose first failed write is remembered by the recorder,
// even if the caller ignores the error.
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

// Text creates a file of the trial for text. Secrets are removed before kept limits the text; Text sets the W
// of kept to the file. If kept is nil, there is no limit.
func (r *Recorder) Text(name string, kept *bounded.Head) (io.WriteCloser, error) {
	file, err := r.Raw(name)
	if err != nil {
		return nil, err
	}
	limited := io.Writer(file)
	if kept != nil {
		kept.W = file
		limited = kept
	}
	out := secret.NewWriter(r.secrets, limited)
	return redactedFile{out, file, func() {
		var marks secret.Marks
		found := out.Found()
		if kept != nil {
			found.Where = secret.First(found.Where, kept.Limit)
		}
		marks.Add("", false, found.Where...)
		r.noteRedacted(filepath.ToSlash(name), found, marks, nil)
	}}, nil
}

// Tree creates a file of the trial for a tar archive, in which secrets are replaced by
// asterisks.
func (r *Recorder) Tree(name string) (io.WriteCloser, error) {
	file, err := r.Raw(name)
	if err != nil {
		return nil, err
	}
	out := secret.NewTarWriter(r.secrets, file)
	return redactedFile{out, file, func() { r.noteRedacted(name, out.Found(), out.Marks(), out.Files()) }}, nil
}

// redactedFile is a file of a trial behind a writer that removes secrets.
type redactedFile struct {
	io.WriteCloser
	file   io.Closer
	closed func() // records what was redacted
}

// Close implements [io.Closer].
func (f redactedFile) Close() error {
	err := errors.Join(f.WriteCloser.Close(), f.file.Close())
	f.closed()
	return err
}

// ServerLog creates the file for the stderr of a server.
func (r *Recorder) ServerLog(name string, kept *bounded.Head) (io.WriteCloser, error) {
	return r.Text(filepath.Join(ServersDir, name+".stderr"), kept)
}

// ServiceLog creates the file for the stdout or stderr of a server's service.
func (r *Recorder) ServiceLog(server, service, stream string, kept *bounded.Head) (io.WriteCloser, error) {
	return r.Text(filepath.Join(ServersDir, server+"."+service+"."+stream), kept)
}

// Clean writes a text or a JSON document to w with secrets replaced.
func (r *Recorder) Clean(w io.Writer, doc []byte) error {
	_, err := r.secrets.WriteJSON(w, doc)
	return err
}

// Redaction counts the secrets replaced in one file of a trial.
type Redaction struct {
	Spans int `json:"spans"`
	// Secrets counts spans by secret, as SERVER/NAME. Unnamed secrets are counted only in
	// Spans.
	Secrets map[string]int `json:"secrets,omitempty"`
	// Files counts the spans in the files of a tree by name, as returned by
	// [secret.TarWriter.Files].
	Files map[string]int `json:"files,omitempty"`
	// Marks lists the places of the spans: in the file, in a file of the tree, or in a text of trial.json,
	// which is named by its key. Frames and steps have spans of their own instead. Older runs have no marks.
	Marks secret.Marks `json:"marks,omitempty"`
}

// noteRedacted adds to the counts of replaced secrets in a file of the trial.
func (r *Recorder) noteRedacted(name string, found secret.Found, marks secret.Marks, files map[string]int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.noteRedactedLocked(name, found, marks, files)
}

func (r *Recorder) noteRedactedLocked(name string, found secret.Found, marks secret.Marks, files map[string]int) {
	if found.Spans+len(marks) == 0 {
		return
	}
	if r.redacted == nil {
		r.redacted = map[string]Redaction{}
	}
	have := r.redacted[name]
	all := secret.Found{Spans: have.Spans, Secrets: have.Secrets}
	all.Add(found)
	have.Spans, have.Secrets = all.Spans, all.Secrets
	for _, m := range marks {
		have.Marks.Add(m.In, m.Name, m.Span)
	}
	if len(files) > 0 {
		have.Files = files
	}
	r.redacted[name] = have
}

// Redacted returns what was replaced in the trial's files so far, by name. Open text and
// tree files are not counted yet.
func (r *Recorder) Redacted() map[string]Redaction {
	r.mu.Lock()
	defer r.mu.Unlock()
	all := make(map[string]Redaction, len(r.redacted))
	for name, one := range r.redacted {
		all[name] = Redaction{one.Spans, maps.Clone(one.Secrets), maps.Clone(one.Files), slices.Clone(one.Marks)}
	}
	return all
}

// note remembers the first write error, and returns err explained.
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

// Err returns the first write error, or nil.
func (r *Recorder) Err() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.err
}

// CopyTo copies the frames, model calls and events recorded so far into the empty files of
// another recorder.
func (r *Recorder) CopyTo(to *Recorder) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	to.mu.Lock()
	defer to.mu.Unlock()
	for name := range r.files {
		if name == StepsFile {
			continue
		}
		if err := r.copyFile(name, to); err != nil {
			return explained(err)
		}
	}
	for name, one := range r.redacted {
		to.noteRedactedLocked(name, secret.Found{Spans: one.Spans, Secrets: one.Secrets}, nil, nil)
	}
	to.seq, to.used, to.lost = r.seq, maps.Clone(r.used), maps.Clone(r.lost)
	return nil
}

func (r *Recorder) copyFile(name string, to *Recorder) error {
	in, err := os.Open(filepath.Join(r.dir, name))
	if err != nil {
		return err
	}
	defer func() { _ = in.Close() }()
	out, err := to.fileLocked(name)
	if err != nil {
		return err
	}
	_, err = io.Copy(out, in)
	return err
}

// Close syncs and closes the files, frees the reserved disk space, and returns all errors,
// including the first write error.
func (r *Recorder) Close() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	errs := []error{r.err}
	for _, name := range slices.Sorted(maps.Keys(r.files)) {
		errs = append(errs, explained(r.files[name].Sync()), explained(r.files[name].Close()))
	}
	return errors.Join(append(errs, releaseSpace(r.dir))...)
}

// Clock is the clock of a trial or run: the wall time at its start plus the monotonic time
// since. Times are in order and differences are real durations, even if the system clock is
// changed.
type Clock struct {
	start time.Time
	began time.Time // monotonic time of start
}

// StartClock returns a clock that now shows wall.
func StartClock(wall time.Time) *Clock {
	return &Clock{start: wall.UTC(), began: time.Now()}
}

// Now returns the clock's time in UTC.
func (c *Clock) Now() time.Time { return c.start.Add(time.Since(c.began)) }
