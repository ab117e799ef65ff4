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
	"os"
	"path/filepath"
	"slices"
	"syscall"

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

// Calls reads calls.jsonl.
func (d Dir) Calls() ([]Call, error) { return collect(readLines[Call](d, CallsFile)) }

// Events reads events.jsonl.
func (d Dir) Events() ([]Event, error) { return collect(readLines[Event](d, EventsFile)) }

// Transcript reads transcript.jsonl; an agent that leaves none has an empty one.
func (d Dir) Transcript() ([]TranscriptEvent, error) {
	events, err := collect(readLines[TranscriptEvent](d, TranscriptFile))
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	return events, err
}

// Workspace opens workspace.tar, the agent's workspace after it stopped.
func (d Dir) Workspace() (io.ReadCloser, error) {
	return Open(string(d), WorkspaceFile)
}

// WriteTrial writes trial.json.
func (d Dir) WriteTrial(t Trial) error { return d.writeJSON(TrialFile, t) }

// WriteVerdicts writes verdicts.json.
func (d Dir) WriteVerdicts(v Verdicts) error { return d.writeJSON(VerdictsFile, v) }

// WriteCalls writes calls.jsonl.
func (d Dir) WriteCalls(calls []Call) error { return writeLines(d, CallsFile, calls) }

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

func (d Dir) writeJSON(name string, v any) error {
	data, err := MarshalIndent(v)
	if err != nil {
		return err
	}
	return WriteFile(filepath.Join(string(d), name), data)
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
	defer func() { err = told(err) }()
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

func readJSON[T any](d Dir, name string) (T, error) {
	var v T
	data, err := ReadFile(string(d), name)
	if err != nil {
		return v, err
	}
	if err := json.Unmarshal(data, &v); err != nil {
		return v, fmt.Errorf("%s: %w", filepath.Join(string(d), name), err)
	}
	return v, nil
}

// maxLine is how many bytes a line may have: all that is kept of a frame, each byte of it
// written as six, and what is said of it.
const maxLine = 8 * maxFrame

func readLines[T any](d Dir, name string) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		var zero T
		file, err := Open(string(d), name)
		if err != nil {
			yield(zero, err)
			return
		}
		defer func() { _ = file.Close() }()
		in := bufio.NewReaderSize(file, 1<<16)
		for number := 1; ; number++ {
			line, err := readLine(in, maxLine)
			if errors.Is(err, io.EOF) {
				return
			}
			var v T
			if err == nil {
				err = decodeLine(line, &v)
			}
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

// decode is json.Unmarshal, which would look at every byte twice more of what reads
// itself.
func decode(line []byte, v any) error {
	if own, ok := v.(json.Unmarshaler); ok {
		return own.UnmarshalJSON(line)
	}
	return json.Unmarshal(line, v)
}

func collect[T any](lines iter.Seq2[T, error]) ([]T, error) {
	var all []T
	for v, err := range lines {
		if err != nil {
			return all, err
		}
		all = append(all, v)
	}
	return all, nil
}
