package secret

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"path"

	"github.com/waza-isolate/waza/internal/tree"
)

const (
	tarBlock = 512
	// maxTarHead is the approximate maximum size of a file's headers.
	maxTarHead = 4 << 20
	// maxTarFiles is the maximum number of files counted by name.
	maxTarFiles = 1000
	// maxFileName is the number of bytes kept of a file's name.
	maxFileName = 256
)

// TarWriter replaces each byte of a secret in a tar archive with an asterisk, in file
// contents, names and link targets. File sizes do not change, and an archive without
// secrets is copied unchanged. The archive may be untrusted: from where it is not a valid
// tar, or has sparse files, it is redacted as text.
type TarWriter struct {
	set  *Set
	in   *bufio.Writer // to pipe, which is slow for small writes
	pipe *io.PipeWriter
	done chan error // the result of copy

	found Found
	files map[string]int
	marks Marks
}

// NewTarWriter returns a TarWriter that writes to out.
func NewTarWriter(set *Set, out io.Writer) *TarWriter {
	from, pipe := io.Pipe()
	w := &TarWriter{set: set, in: bufio.NewWriterSize(pipe, 64<<10), pipe: pipe, done: make(chan error, 1), files: map[string]int{}}
	go func() {
		err := w.copy(from, out)
		_ = from.CloseWithError(err) // always returns nil
		w.done <- err
	}()
	return w
}

// Write implements io.Writer.
func (w *TarWriter) Write(p []byte) (int, error) { return w.in.Write(p) }

// Close flushes the remaining bytes. It does not close the underlying writer.
func (w *TarWriter) Close() error {
	_ = w.in.Flush() // if it fails, copy has failed too
	_ = w.pipe.Close()
	return <-w.done
}

// Found returns what was replaced. It may be called once the writer is closed.
func (w *TarWriter) Found() Found { return w.found }

// Files counts replacements by file name, blanked and truncated to 256 bytes, for the first
// thousand files with secrets.
func (w *TarWriter) Files() map[string]int { return w.files }

// Marks returns the places of secrets: in the contents and names of files. Other texts of a file's headers
// count as its name. Files are named as in Files.
func (w *TarWriter) Marks() Marks { return w.marks }

// copy redacts a tar. It returns write errors; what cannot be read as a tar is copied too.
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

// header writes an entry's header, given as bytes in head, with secrets in its texts
// blanked. It returns the name.
func (w *TarWriter) header(e tree.Entry, head []byte, to io.Writer) (name string) {
	if len(w.set.find().spans(head, false)) == 0 {
		_, _ = to.Write(head)
		return e.Name
	}
	var spans []Span
	blank := func(text string) string {
		clean, found := w.set.Bytes([]byte(text))
		w.found.Add(found)
		spans = append(spans, found.Where...)
		return string(clean)
	}
	for _, text := range []*string{&e.Name, &e.Linkname, &e.Uname, &e.Gname} {
		*text = blank(*text)
	}
	for key, value := range e.PAXRecords {
		if isField(key) { // the entry's field takes precedence
			delete(e.PAXRecords, key)
		} else {
			e.PAXRecords[key] = blank(value)
		}
	}
	w.marks.Add(path.Clean(fileName(e.Name)), true, spans...)
	if clean, err := e.Head(); err == nil {
		_, _ = to.Write(clean)
	} else {
		w.content("", bytes.NewReader(head), to)
	}
	return e.Name
}

// isField reports whether a PAX record is also a field of the entry.
func isField(key string) bool {
	switch key {
	case "path", "linkpath", "uname", "gname", "size", "uid", "gid", "mtime", "atime", "ctime":
		return true
	}
	return false
}

// fileName returns the name by which a file is counted.
func fileName(name string) string { return name[:min(len(name), maxFileName)] }

// content redacts file content. name is empty for bytes outside of files.
func (w *TarWriter) content(name string, from io.Reader, to io.Writer) {
	out := NewWriter(w.set, to)
	_, _ = io.Copy(out, from) // unreadable content is dropped; to remembers its error
	_ = out.Close()
	found := out.Found()
	w.found.Add(found)
	name = fileName(name)
	w.marks.Add(path.Clean(name), false, found.Where...)
	if _, known := w.files[name]; found.Spans > 0 && (known || len(w.files) < maxTarFiles) {
		w.files[name] += found.Spans
	}
}

// recorded records what is read from in while bytes is not nil.
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

// failing remembers the first error of a writer, and writes nothing after it.
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
