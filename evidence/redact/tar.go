package redact

import (
	"bufio"
	"bytes"
	"errors"
	"io"

	"github.com/waza-isolate/waza/internal/tree"
)

const (
	tarBlock = 512
	// maxTarHead is about how many bytes of headers a file may have.
	maxTarHead = 4 << 20
	// maxTarFiles is how many files are counted by their names.
	maxTarFiles = 1000
	// maxFileName is how many bytes of a file's name are kept with what was found.
	maxFileName = 256
)

// TarWriter blanks secrets in a tree as tar, with an asterisk for each byte: in what is in
// files, in their names and in what links lead to. Sizes of files stay as they are, and a tar
// without secrets stays as it is to the byte. The tree may be a stranger's: from where it is
// no tar, or one with holes, it is blanked as a text is.
type TarWriter struct {
	set  *Set
	in   *bufio.Writer // to pipe, which takes long for few bytes
	pipe *io.PipeWriter
	done chan error // what came of reading

	found Found
	files map[string]int
}

// NewTarWriter returns a TarWriter that passes blanked bytes to out. Close closes out.
func NewTarWriter(set *Set, out io.WriteCloser) *TarWriter {
	from, pipe := io.Pipe()
	w := &TarWriter{set: set, in: bufio.NewWriterSize(pipe, 64<<10), pipe: pipe, done: make(chan error, 1), files: map[string]int{}}
	go func() {
		err := w.copy(from, out)
		_ = from.CloseWithError(err) // a pipe's always closes
		w.done <- errors.Join(err, out.Close())
	}()
	return w
}

// Write implements io.Writer.
func (w *TarWriter) Write(p []byte) (int, error) { return w.in.Write(p) }

// Close writes what was held back, whole or not.
func (w *TarWriter) Close() error {
	_ = w.in.Flush() // where that fails, copying has
	_ = w.pipe.Close()
	return <-w.done
}

// Found returns what was replaced, once the writer is closed.
func (w *TarWriter) Found() Found { return w.found }

// Files counts what was replaced by the names of files, which are blanked and cut to
// 256 bytes; of the first thousand files in which there was something.
func (w *TarWriter) Files() map[string]int { return w.files }

// copy blanks a tar. Its error is that of writing: what cannot be read as a tar is copied
// too.
func (w *TarWriter) copy(from io.Reader, out io.Writer) error {
	to, raw := &failing{w: out}, &recorded{in: from}
	raw.bytes = []byte{}
	padding := 0
	for e, err := range tree.Entries(raw) {
		if err != nil || e.HasHoles() || to.err != nil {
			break
		}
		head := raw.bytes
		raw.bytes = nil
		padding = min(padding, len(head))
		w.content("", bytes.NewReader(head[:padding]), to)
		w.content(w.header(e, head[padding:], to), e.Content, to)
		padding = int(-e.Size & (tarBlock - 1))
		raw.bytes = []byte{}
	}
	w.content("", io.MultiReader(bytes.NewReader(raw.bytes), from), to)
	return to.err
}

// header writes an entry's header, which came as the bytes head, without secrets in its
// texts, and returns the name.
func (w *TarWriter) header(e tree.Entry, head []byte, to io.Writer) (name string) {
	if !w.set.find().in(head) {
		_, _ = to.Write(head)
		return e.Name
	}
	for _, text := range []*string{&e.Name, &e.Linkname, &e.Uname, &e.Gname} {
		*text = w.blank(*text)
	}
	for key, value := range e.PAXRecords {
		if isField(key) { // which the entry has too, and that counts
			delete(e.PAXRecords, key)
		} else {
			e.PAXRecords[key] = w.blank(value)
		}
	}
	if clean, err := e.Head(); err == nil {
		_, _ = to.Write(clean)
	} else {
		w.content("", bytes.NewReader(head), to)
	}
	return e.Name
}

// isField reports whether a record of PAX stands in a field of an entry.
func isField(key string) bool {
	switch key {
	case "path", "linkpath", "uname", "gname", "size", "uid", "gid", "mtime", "atime", "ctime":
		return true
	}
	return false
}

func (w *TarWriter) blank(text string) string {
	clean, found := w.set.redact([]byte(text), &redaction{blank: true})
	w.found.Add(found)
	return string(clean)
}

// content blanks what is in a file; of what is in none the name is empty.
func (w *TarWriter) content(name string, from io.Reader, to io.Writer) {
	out := NewBlanker(w.set, unclosed{to})
	_, _ = io.Copy(out, from) // what cannot be read is not there, and to keeps its error
	_ = out.Close()
	found := out.Found()
	w.found.Add(found)
	name = name[:min(len(name), maxFileName)]
	if _, known := w.files[name]; found.Spans > 0 && (known || len(w.files) < maxTarFiles) {
		w.files[name] += found.Spans
	}
}

// recorded keeps what is read from in for as long as bytes is not nil.
type recorded struct {
	in    io.Reader
	bytes []byte
}

func (r *recorded) Read(p []byte) (int, error) {
	if len(r.bytes) > maxTarHead {
		return 0, errors.New("a header is too large")
	}
	n, err := r.in.Read(p)
	if r.bytes != nil {
		r.bytes = append(r.bytes, p[:n]...)
	}
	return n, err
}

// failing keeps the first error of a writer, and writes nothing more then.
type failing struct {
	w   io.Writer
	err error
}

func (f *failing) Write(p []byte) (n int, err error) {
	if f.err != nil {
		return 0, f.err
	}
	n, f.err = f.w.Write(p)
	return n, f.err
}
