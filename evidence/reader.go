package evidence

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/waza-isolate/waza/internal/jsontext"
)

// Dir reads one trial's directory.
type Dir string

// Trial reads trial.json.
func (d Dir) Trial() (Trial, error) { return readJSON[Trial](d, TrialFile) }

// Verdicts reads verdicts.json.
func (d Dir) Verdicts() (Verdicts, error) { return readJSON[Verdicts](d, VerdictsFile) }

// Frames reads frames.jsonl in order. It stops at the first error, which a torn
// last line is too.
func (d Dir) Frames() iter.Seq2[Frame, error] { return readLines[Frame](d, FramesFile) }

// Calls reads calls.jsonl. Large results stay there.
func (d Dir) Calls() ([]Call, error) { return collect[Call](d, CallsFile) }

// Events reads events.jsonl.
func (d Dir) Events() ([]Event, error) { return collect[Event](d, EventsFile) }

// Transcript reads transcript.jsonl; an agent that leaves none has an empty one.
func (d Dir) Transcript() ([]TranscriptEvent, error) {
	events, err := collect[TranscriptEvent](d, TranscriptFile)
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	return events, err
}

// Workspace opens workspace.tar, the agent's workspace after it stopped.
func (d Dir) Workspace() (io.ReadCloser, error) {
	return Open(string(d), WorkspaceFile)
}

func writeLines[T any](d Dir, name string, records []T) error {
	return WriteFileBy(filepath.Join(string(d), name), func(w io.Writer) error {
		out := bufio.NewWriter(w)
		enc := json.NewEncoder(out)
		enc.SetEscapeHTML(false)
		for _, record := range records {
			if err := enc.Encode(record); err != nil {
				return err
			}
		}
		return out.Flush()
	})
}

// MarshalIndent is how every JSON document of a run directory is laid out: two
// spaces, no HTML escaping, a newline at the end.
func MarshalIndent(v any) ([]byte, error) {
	compact, err := Marshal(v)
	if err != nil {
		return nil, err
	}
	return indent(compact)
}

// WriteFile replaces the file at path in one step and syncs it, so that a crash
// leaves the old content or the new and nothing between.
func WriteFile(path string, data []byte) error {
	return WriteFileBy(path, func(w io.Writer) error {
		_, err := w.Write(data)
		return err
	})
}

// WriteFileBy is [WriteFile] of what write writes. Where write fails, the file at path
// stays as it is. Where there can be no such file, the error is a [fs.PathError] of path.
func WriteFileBy(path string, write func(io.Writer) error) (err error) {
	defer func() { err = reported(err) }()
	if info, err := os.Stat(path); err == nil && info.IsDir() {
		return &fs.PathError{Op: "write", Path: path, Err: syscall.EISDIR}
	}
	temp, err := os.CreateTemp(filepath.Dir(path), halfWritten(filepath.Base(path)))
	if err != nil {
		return &fs.PathError{Op: "write", Path: path, Err: cause(err)}
	}
	defer func() {
		if err != nil {
			_ = os.Remove(temp.Name())
		}
	}()
	err = errors.Join(write(temp), temp.Chmod(0o644), temp.Sync(), temp.Close())
	if err != nil {
		return err
	}
	if err = os.Rename(temp.Name(), path); err != nil {
		return err
	}
	return syncPath(filepath.Dir(path))
}

// cause is err without the name of the file that it is about.
func cause(err error) error {
	var about *fs.PathError
	if errors.As(err, &about) {
		return about.Err
	}
	return err
}

func readJSON[T any](d Dir, name string) (v T, err error) {
	err = ReadJSON(string(d), name, &v)
	return v, err
}

// maxLine is how many bytes a line may have: all that is kept of a frame, each byte of it
// written as six, and what is said of it.
const maxLine = 8 * maxFrame

// readLines reads a file of lines one by one, however many there are.
func readLines[T any](d Dir, name string) iter.Seq2[T, error] {
	return linesUpTo[T](d, name, math.MaxInt64)
}

// linesUpTo is readLines of a file of at most so many bytes.
func linesUpTo[T any](d Dir, name string, most int64) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		var zero T
		file, err := Open(string(d), name)
		if err != nil {
			yield(zero, err)
			return
		}
		defer func() { _ = file.Close() }()
		if err := sizeUpTo(file, most); err != nil {
			yield(zero, err)
			return
		}
		in := bufio.NewReaderSize(file, 1<<16)
		offset := int64(0)
		for number := 1; ; number++ {
			text, err := readLine(in, maxLine)
			if errors.Is(err, io.EOF) {
				return
			}
			var v T
			if err == nil {
				err = decodeLine(text, &v)
			}
			if large, ok := any(&v).(located); ok && err == nil && len(text) > maxHeld {
				large.readAt(line{d, name, offset, len(text)}, text)
			}
			offset += int64(len(text))
			if err != nil {
				yield(zero, fmt.Errorf("%s line %d: %w", file.Name(), number, err))
				return
			}
			if !yield(v, nil) {
				return
			}
		}
	}
}

// decodeLine is decode of what does not take many times its bytes to hold.
func decodeLine(line []byte, v any) error {
	if len(line) > jsontext.MaxValues && jsontext.MoreThan(jsontext.MaxValues, line) {
		return fmt.Errorf("it has more than %d values", jsontext.MaxValues)
	}
	return decode(line, v)
}

// readLine reads a line of at most so many bytes, which is whoever's gets it. The last one
// need not have an end; behind it is [io.EOF].
func readLine(in *bufio.Reader, most int) ([]byte, error) {
	var pieces [][]byte
	size := 0
	for {
		piece, err := in.ReadSlice('\n')
		if size += len(piece); size > most {
			return nil, fmt.Errorf("it has more than %d bytes", most)
		}
		if errors.Is(err, bufio.ErrBufferFull) {
			pieces = append(pieces, bytes.Clone(piece))
			continue
		}
		if err != nil && (!errors.Is(err, io.EOF) || size == 0) {
			return nil, err
		}
		return slices.Concat(append(pieces, piece)...), nil
	}
}

// decode is json.Unmarshal, in less time, except that the case of a key counts.
func decode(line []byte, v any) error {
	if own, ok := v.(json.Unmarshaler); ok {
		return own.UnmarshalJSON(line)
	}
	return jsontext.Unmarshal(line, v)
}

// collect reads all lines of a file, which may have 1 GiB.
func collect[T any](d Dir, name string) ([]T, error) {
	var all []T
	for v, err := range linesUpTo[T](d, name, maxRecords) {
		if err != nil {
			return all, err
		}
		all = append(all, v)
	}
	return all, nil
}

// Earlier reads the attempts of a trial that were made again, in order. Each has its
// outcome, also where graders decided that.
func (d Dir) Earlier() ([]Trial, error) {
	at := filepath.Join(string(d), AttemptsDir)
	entries, err := os.ReadDir(at)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var found []Trial
	for _, entry := range entries {
		t, err := readJSON[Trial](d, filepath.Join(AttemptsDir, entry.Name(), TrialFile))
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("attempt: %w", err)
		}
		at := Dir(filepath.Join(string(d), AttemptsDir, entry.Name()))
		verdicts, err := at.Verdicts()
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, fmt.Errorf("attempt: %w", err)
		}
		t.Class, t.Reason, t.Message = t.Outcome(verdicts)
		found = append(found, t)
	}
	slices.SortFunc(found, func(a, b Trial) int { return a.Attempt - b.Attempt })
	return found, nil
}

// Catalogs reads catalogs.jsonl.
func (d Dir) Catalogs() ([]Catalog, error) { return collect[Catalog](d, CatalogsFile) }

// Checkpoint is where the evidence up to the end of a turn lies.
func (d Dir) Checkpoint(turn int) Dir {
	return Dir(filepath.Join(string(d), CheckpointsDir, strconv.Itoa(turn)))
}

// Gateway reports whether the runner's gateway was in the way to the trial's models: its
// plan says so, or what came of it is there. What the agent asks of models another way
// is on no record.
func (d Dir) Gateway(t Trial) bool {
	var plan struct {
		Models json.RawMessage `json:"models"`
	}
	if json.Unmarshal(t.Plan, &plan) == nil && len(plan.Models) > 0 && string(plan.Models) != "null" {
		return true
	}
	_, err := os.Lstat(filepath.Join(string(d), ModelsFile))
	return err == nil
}

// LastWords is the last line that the agent wrote to stderr, as far as it is within the
// last 2 KiB; empty where there is none.
func (d Dir) LastWords() string {
	file, err := os.OpenFile(filepath.Join(string(d), StderrFile), os.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
	if err != nil {
		return ""
	}
	defer func() { _ = file.Close() }()
	size, err := regularSize(file)
	if err != nil {
		return ""
	}
	from := max(0, size-maxLastWords)
	tail, err := io.ReadAll(io.NewSectionReader(file, from, size-from))
	if err != nil {
		return ""
	}
	tail = bytes.TrimSpace(tail)
	line := tail[bytes.LastIndexAny(tail, "\r\n")+1:]
	return strings.TrimSpace(strings.ToValidUTF8(string(line), ""))
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

// Narration reads narration.json. The error is [io/fs.ErrNotExist] for a trial
// without a transcript.
func (d Dir) Narration() (Narration, error) { return readJSON[Narration](d, NarrationFile) }

// ServerWrote is how much a server wrote to its stderr, as it is kept: with asterisks in
// place of secrets.
func (d Dir) ServerWrote(server string) (size, lines int64, err error) {
	file, err := Open(string(d), filepath.Join(ServersDir, server+".stderr"))
	if errors.Is(err, os.ErrNotExist) {
		return 0, 0, nil
	}
	if err != nil {
		return 0, 0, err
	}
	defer func() { _ = file.Close() }()
	for p := make([]byte, 64<<10); ; {
		n, err := file.Read(p)
		size += int64(n)
		lines += int64(bytes.Count(p[:n], []byte{'\n'}))
		if errors.Is(err, io.EOF) {
			return size, lines, nil
		}
		if err != nil {
			return size, lines, err
		}
	}
}

// Echoes is the secrets that each server of a trial said, by server; by name those of
// one.
func (d Dir) Echoes(t Trial) (map[string][]Echo, error) {
	said := map[string]map[string]Echo{}
	add := func(server, secret string, frames, stderr int) {
		if said[server] == nil {
			said[server] = map[string]Echo{}
		}
		e := said[server][secret]
		said[server][secret] = Echo{secret, e.Frames + frames, e.Stderr + stderr}
	}
	for f, err := range d.Frames() {
		if err != nil {
			return nil, err
		}
		for secret, times := range f.Secrets {
			if f.Dir == ToClient && f.Synthetic == "" {
				add(f.Server, secret, times, 0)
			}
		}
	}
	for _, s := range t.Servers {
		for secret, times := range t.Redacted[ServersDir+"/"+s.Name+".stderr"].Secrets {
			add(s.Name, secret, 0, times)
		}
	}
	all := make(map[string][]Echo, len(said))
	for server, echoes := range said {
		all[server] = slices.SortedFunc(maps.Values(echoes), func(a, b Echo) int { return strings.Compare(a.Secret, b.Secret) })
	}
	return all, nil
}

// Steps reads steps.jsonl; a trial that took none has no such file.
func (d Dir) Steps() ([]Step, error) {
	steps, err := collect[Step](d, StepsFile)
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	return steps, err
}

// maxLastWords is how many bytes of an output's end are looked at for its last line.
const maxLastWords = 2 << 10

// Observed reads observed.jsonl. Where nothing was watched, as in runs of before, there
// is no such file, and none.
func (d Dir) Observed() ([]Observed, error) {
	all, err := collect[Observed](d, ObservedFile)
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	return all, err
}
