package redact

import (
	"bytes"
	"errors"
	"io"
)

const (
	tarBlock = 512
	// maxTarName bounds what is held of names and attributes before a header.
	maxTarName = 1 << 20
	// maxTarFiles is how many files are told apart in what was found.
	maxTarFiles = 1000
	// maxToldName is how much of a file's name is told.
	maxToldName = 256
)

// TarWriter has asterisks in place of secrets in a tree as tar, one for each byte: in
// what is in files, in their names and in what links lead to. What it passes on is as
// long as what is written to it, and sizes stay as they are. The tree may be a
// stranger's: what is no tar is blanked all the same.
type TarWriter struct {
	set  *Set
	out  io.WriteCloser
	err  error
	next func([]byte) (int, error) // takes some of what comes, at least a byte

	held  []byte  // of a header, or of what stands before one
	left  int64   // bytes to come of what is not held, with their padding
	plain *Writer // of what is not held
	name  string  // of the file at hand; empty where no header told
	size  int64   // of the next file, where attributes told; else -1
	long  string  // name of the next file, where that stands before its header
	found Found
	files map[string]int
}

// NewTarWriter returns a TarWriter that passes blanked bytes to out. Close closes out.
func NewTarWriter(set *Set, out io.WriteCloser) *TarWriter {
	w := &TarWriter{set: set, out: out, size: -1, files: map[string]int{}}
	w.next = w.header
	return w
}

// Found is what was replaced, once the writer is closed.
func (w *TarWriter) Found() Found { return w.found.copied() }

// Files counts what was replaced by the names of files, which are blanked and cut to
// 256 bytes; of the first thousand files in which there was something.
func (w *TarWriter) Files() map[string]int { return w.files }

// Write implements io.Writer.
func (w *TarWriter) Write(p []byte) (int, error) {
	for rest := p; len(rest) > 0 && w.err == nil; {
		var n int
		n, w.err = w.next(rest)
		rest = rest[n:]
	}
	if w.err != nil {
		return 0, w.err
	}
	return len(p), nil
}

// Close writes what was held back, whole or not.
func (w *TarWriter) Close() error {
	if w.err == nil && len(w.held) > 0 {
		held := w.held
		w.begin(len(held))
		_, w.err = w.content(held)
	}
	return errors.Join(w.err, w.end(), w.out.Close())
}

// hold takes bytes until size of them are held.
func (w *TarWriter) hold(p []byte, size int) (n int, whole bool) {
	n = min(len(p), size-len(w.held))
	w.held = append(w.held, p[:n]...)
	return n, len(w.held) == size
}

// header takes a header's block. What is none, as an archive's end, is content to the
// end.
func (w *TarWriter) header(p []byte) (int, error) {
	n, whole := w.hold(p, tarBlock)
	if !whole {
		return n, nil
	}
	block := w.held
	w.held = nil
	size, ok := tarSize(block)
	if !ok {
		w.name = ""
		w.begin(-1)
		_, err := w.content(block)
		return n, err
	}
	if w.size >= 0 {
		size, w.size = w.size, -1
	}
	padded := (size + tarBlock - 1) / tarBlock * tarBlock
	if isTarName(block) && size <= maxTarName {
		w.next = func(p []byte) (int, error) { return w.attributes(p, block[tarType], int(size), int(padded)) }
		if padded == 0 {
			w.next = w.header
		}
	} else if hasTarContent(block) && padded > 0 {
		w.begin(int(padded))
	}
	return n, w.tell(block)
}

// tell writes a header without secrets, and takes the name of what comes.
func (w *TarWriter) tell(block []byte) error {
	changed := false
	for _, field := range tarTexts() {
		clean, found := w.set.blankBytes(block[field.from:field.to])
		changed = changed || found.Spans > 0
		w.found.Add(found)
		copy(block[field.from:], clean)
	}
	if changed {
		setTarSum(block)
	}
	if !isTarName(block) {
		w.name, w.long = w.long, ""
		if w.name == "" {
			w.name = tarName(block)
		}
	}
	_, err := w.out.Write(block)
	return err
}

// attributes takes names and attributes of the file that comes next.
func (w *TarWriter) attributes(p []byte, kind byte, size, padded int) (int, error) {
	n, whole := w.hold(p, padded)
	if !whole {
		return n, nil
	}
	held := w.held
	w.held, w.next = nil, w.header
	text := held[:size]
	switch kind {
	case 'L':
		w.long = string(bytes.TrimRight(w.blankIn(text), "\x00"))
	case 'K':
		w.blankIn(text)
	default:
		records, ok := paxRecords(text)
		if !ok {
			w.blankIn(text)
		}
		for _, r := range records {
			w.record(r, kind)
		}
	}
	w.blankIn(held[size:])
	_, err := w.out.Write(held)
	return n, err
}

// record takes a file's attribute. Those of the archive as a whole name no file.
func (w *TarWriter) record(r paxRecord, kind byte) {
	if r.isNumber() {
		if size, ok := r.size(); ok && kind == 'x' {
			w.size = size
		}
		return
	}
	value := w.blankIn(r.value)
	if string(r.key) == "path" && kind == 'x' {
		w.long = string(value)
	}
}

// blankIn blanks text where it stands.
func (w *TarWriter) blankIn(text []byte) []byte {
	clean, found := w.set.blankBytes(text)
	w.found.Add(found)
	copy(text, clean)
	return text
}

// begin has the next size bytes blanked as they come; all, where size is negative.
func (w *TarWriter) begin(size int) {
	w.plain, w.left, w.next = NewBlanker(w.set, unclosed{w.out}), int64(size), w.content
}

func (w *TarWriter) content(p []byte) (int, error) {
	if w.left >= 0 {
		p = p[:min(int64(len(p)), w.left)]
		w.left -= int64(len(p))
	}
	_, err := w.plain.Write(p)
	if w.left == 0 {
		err = errors.Join(err, w.end())
		w.next = w.header
	}
	return len(p), err
}

// end is the end of a file's content.
func (w *TarWriter) end() error {
	if w.plain == nil {
		return nil
	}
	err := w.plain.Close()
	found := w.plain.Found()
	w.plain = nil
	w.found.Add(found)
	name := w.name[:min(len(w.name), maxToldName)]
	if _, known := w.files[name]; found.Spans > 0 && (known || len(w.files) < maxTarFiles) {
		w.files[name] += found.Spans
	}
	return err
}
