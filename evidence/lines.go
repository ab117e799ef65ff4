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
	"sort"

	"github.com/waza-isolate/waza/internal/jsontext"
)

// maxLine is the maximum length of a line in bytes: the largest frame with each byte
// escaped as \u00XX, and its other fields.
const maxLine = 8 * maxFrame

func readJSON[T any](d Dir, name string) (v T, err error) {
	err = ReadJSON(string(d), name, &v)
	return v, err
}

// offsetOf returns the offset of the first record for which wanted is true, by binary search: wanted must be
// true for all later records. If there is none, it returns the file's size. A record that cannot be read
// counts as wanted, so the caller gets the error when reading from there.
func offsetOf[T any](d Dir, name string, wanted func(T) bool) (int64, error) {
	file, err := Open(string(d), name)
	if err != nil {
		return 0, err
	}
	defer func() { _ = file.Close() }()
	info, err := file.Stat()
	if err != nil {
		return 0, err
	}
	// first returns the offset of the first line that begins at offset or after it.
	first := func(offset int64) (int64, *bufio.Reader, error) {
		if offset == 0 {
			return 0, bufio.NewReader(io.NewSectionReader(file, 0, info.Size())), nil
		}
		in := bufio.NewReader(io.NewSectionReader(file, offset-1, info.Size()))
		before, err := readLine(in, maxLine)
		return offset - 1 + int64(len(before)), in, err
	}
	at := sort.Search(int(info.Size()), func(offset int) bool {
		_, in, err := first(int64(offset))
		var text []byte
		if err == nil {
			text, err = readLine(in, maxLine)
		}
		var v T
		if err == nil {
			err = decodeLine(text, &v)
		}
		return err != nil || wanted(v)
	})
	begin, _, err := first(int64(at))
	if err != nil && !errors.Is(err, io.EOF) {
		return 0, err
	}
	return begin, nil
}

// readLines yields the records of a file of JSON lines one at a time. It fails if the file exceeds most bytes.
func readLines[T any](d Dir, name string, most int64) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		var v T
		lines, err := openLines[T](d, name, 0, most)
		if err != nil {
			yield(v, err)
			return
		}
		defer lines.close()
		for err == nil {
			if v, err = lines.next(); errors.Is(err, io.EOF) || !yield(v, err) {
				return
			}
		}
	}
}

// lineReader reads the records of a file one by one.
type lineReader[T any] struct {
	dir           Dir
	name          string
	file          *os.File
	in            *bufio.Reader
	begin, offset int64
	number        int // of the latest record, counting from 1
}

// openLines opens a file of up to most bytes for [lineReader.next], from an offset at which a line must begin.
func openLines[T any](d Dir, name string, begin, most int64) (*lineReader[T], error) {
	file, err := Open(string(d), name)
	if err != nil {
		return nil, err
	}
	err = sizeUpTo(file, most)
	if err == nil {
		_, err = file.Seek(begin, io.SeekStart)
	}
	if err != nil {
		return nil, errors.Join(err, file.Close())
	}
	return &lineReader[T]{dir: d, name: name, file: file, in: bufio.NewReaderSize(file, 1<<16), begin: begin, offset: begin}, nil
}

func (r *lineReader[T]) close() { _ = r.file.Close() }

// next returns the next record, or [io.EOF] after the last.
func (r *lineReader[T]) next() (v T, err error) {
	r.number++
	text, err := readLine(r.in, maxLine)
	if errors.Is(err, io.EOF) {
		return v, io.EOF
	}
	if err == nil {
		err = decodeLine(text, &v)
	}
	if err != nil {
		where := fmt.Sprintf("line %d", r.number)
		if r.begin > 0 {
			where += fmt.Sprintf(" after byte %d", r.begin)
		}
		return v, fmt.Errorf("%s %s: %w", r.file.Name(), where, err)
	}
	if large, ok := any(&v).(located); ok && len(text) > maxHeld {
		large.readAt(line{r.dir, r.name, r.offset, len(text)}, text)
	}
	r.offset += int64(len(text))
	return v, nil
}

// collect reads all lines of a file of up to 1 GiB.
func collect[T any](d Dir, name string) ([]T, error) {
	var all []T
	for v, err := range readLines[T](d, name, maxRecords) {
		if err != nil {
			return all, err
		}
		all = append(all, v)
	}
	return all, nil
}

// collectIfThere is like collect, and reads nothing if the file does not exist.
func collectIfThere[T any](d Dir, name string) ([]T, error) {
	all, err := collect[T](d, name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	return all, err
}

// readLine reads a line of up to most bytes into a new buffer. The last line may lack a
// line break; after it readLine returns [io.EOF].
func readLine(in *bufio.Reader, most int) ([]byte, error) {
	var pieces [][]byte
	size := 0
	for {
		piece, err := in.ReadSlice('\n')
		if size += len(piece); size > most {
			return nil, fmt.Errorf("it has more than %d bytes", most)
		}
		if bytes.IndexByte(piece, 0) >= 0 { // such as in the holes of a sparse file, which may have any size
			return nil, errors.New("it has a NUL byte, so it is no record")
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

// decodeLine is like [json.Unmarshal], but faster and with case-sensitive keys. It rejects a line
// with so many small values that it would take many times its size in memory.
func decodeLine(line []byte, v any) error {
	if len(line) > jsontext.MaxValues && jsontext.MoreThan(jsontext.MaxValues, line) {
		return fmt.Errorf("it has more than %d values", jsontext.MaxValues)
	}
	if own, ok := v.(json.Unmarshaler); ok {
		return own.UnmarshalJSON(line)
	}
	return jsontext.Unmarshal(line, v)
}

func writeLines[T any](d Dir, name string, records []T) error {
	return WriteFileBy(filepath.Join(string(d), name), func(w io.Writer) error {
		out := bufio.NewWriter(w)
		for _, record := range records {
			line, err := Marshal(record)
			if err != nil {
				return err
			}
			_, _ = out.Write(append(line, '\n')) // Flush returns its error
		}
		return out.Flush()
	})
}
