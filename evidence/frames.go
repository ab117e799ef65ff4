package evidence

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"iter"
	"math"
	"os"
	"path"
	"path/filepath"
	"strconv"
	"strings"
)

// MaxFrames is the maximum size in bytes of the file with a server's frames. Each direction may use half of
// it, so neither side can use up the other's space.
const MaxFrames = 1 << 30

// FramesOf returns the name of the file with a server's frames.
func FramesOf(server string) string { return FramesDir + "/" + server + ".jsonl" }

// holdsFrames reports whether a file of a trial holds frames.
func holdsFrames(name string) bool { return name == FramesFile || path.Dir(name) == FramesDir }

// GapFramesOf returns the kind of gap for missing frames of a server.
func GapFramesOf(server string) string { return GapFrames + " of " + server }

// FrameFiles returns the names of the files with frames. An older run has a single file, which is read
// instead of the directory.
func (d Dir) FrameFiles() ([]string, error) {
	if _, err := os.Lstat(filepath.Join(string(d), FramesFile)); err == nil {
		return []string{FramesFile}, nil
	}
	dir := filepath.Join(string(d), FramesDir)
	info, err := os.Lstat(dir)
	if err == nil {
		err = plain(dir, info.Mode())
	}
	if err != nil {
		return nil, err
	}
	entries, err := os.ReadDir(dir)
	var names []string
	for _, entry := range entries {
		if strings.HasSuffix(entry.Name(), ".jsonl") {
			names = append(names, FramesDir+"/"+entry.Name())
		}
	}
	return names, err
}

// Frames reads the frames of all servers in the order of their numbers. It stops at the first error,
// such as an incomplete last line.
func (d Dir) Frames() iter.Seq2[Frame, error] { return d.FramesFrom(0) }

// FramesFrom reads the frames whose numbers are at least seq, without reading earlier ones.
func (d Dir) FramesFrom(seq int64) iter.Seq2[Frame, error] {
	return func(yield func(Frame, error) bool) {
		if err := d.mergeFrames(seq, func(f Frame) bool { return yield(f, nil) }); err != nil {
			yield(Frame{}, err)
		}
	}
}

// mergeFrames calls take for the frames of all files in the order of their numbers, until take returns false.
// It holds one frame at a time in memory.
func (d Dir) mergeFrames(seq int64, take func(Frame) bool) error {
	names, err := d.FrameFiles()
	if err != nil {
		return err
	}
	var files []*lineReader[Frame]
	defer func() {
		for _, file := range files {
			file.close()
		}
	}()
	for _, name := range names {
		var from int64
		if seq > 0 {
			from, err = offsetOf(d, name, func(f Frame) bool { return f.Seq >= seq })
		}
		if err != nil {
			return err
		}
		file, err := openLines[Frame](d, name, from, math.MaxInt64)
		if err != nil {
			return err
		}
		files = append(files, file)
	}
	for {
		var first *lineReader[Frame]
		least := int64(math.MaxInt64)
		for _, file := range files {
			if n, more := nextNumber(file.in); more && (first == nil || n < least) {
				first, least = file, n
			}
		}
		if first == nil {
			return nil
		}
		f, err := first.next()
		if err != nil {
			return err
		}
		if !take(f) {
			return nil
		}
	}
}

// nextNumber returns the number of the next frame without reading the rest of the frame, and whether there is
// one. The number is 0 if the line does not begin in the form that [Frame.MarshalJSON] writes.
func nextNumber(in *bufio.Reader) (n int64, more bool) {
	const before, digits = `{"seq":`, 19
	start, err := in.Peek(len(before) + digits + 1)
	if len(start) == 0 && errors.Is(err, io.EOF) {
		return 0, false
	}
	number, _, _ := bytes.Cut(bytes.TrimPrefix(start, []byte(before)), []byte(","))
	n, _ = strconv.ParseInt(string(number), 10, 64)
	return n, true
}
