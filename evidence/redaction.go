package evidence

import (
	"io"
	"maps"
	"path/filepath"

	"github.com/waza-isolate/waza/evidence/redact"
)

// Redaction is what was taken out of one file of a trial.
type Redaction struct {
	Spans int `json:"spans"`
	// Secrets counts the spans by secret, as SERVER/NAME; those that no eval names are in
	// none.
	Secrets map[string]int `json:"secrets,omitempty"`
	// Files counts the spans in the files of a tree by name, as [redact.TarWriter.Files]
	// has it.
	Files map[string]int `json:"files,omitempty"`
}

// noteRedacted takes into the record what was found in a file of the trial.
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

// Clean writes a text, or a document of JSON, to w as the recorder keeps it.
func (r *Recorder) Clean(w io.Writer, doc []byte) error {
	_, err := r.secrets.WriteJSON(w, doc)
	return err
}

// Redacted is what was taken out of the trial's files so far, by their names; of those
// that are still open as text or trees nothing.
func (r *Recorder) Redacted() map[string]Redaction {
	r.mu.Lock()
	defer r.mu.Unlock()
	all := make(map[string]Redaction, len(r.redacted))
	for name, found := range r.redacted {
		all[name] = Redaction{found.Spans, maps.Clone(found.Secrets), maps.Clone(r.inTrees[name])}
	}
	return all
}

// cleaned is a file of a trial whose writer takes secrets out.
type cleaned struct {
	io.WriteCloser
	tell func() // what was found, once the file is closed
}

func (c cleaned) Close() error {
	err := c.WriteCloser.Close()
	c.tell()
	return err
}

// Text opens a file of the trial for text, redacted on the way.
func (r *Recorder) Text(name string) (io.WriteCloser, error) {
	file, err := r.Raw(name)
	if err != nil {
		return nil, err
	}
	out := redact.NewWriter(r.secrets, file)
	return cleaned{out, func() { r.noteRedacted(filepath.ToSlash(name), out.Found(), nil) }}, nil
}

// Tree opens a file of the trial for a tree as tar, with asterisks in place of
// secrets.
func (r *Recorder) Tree(name string) (io.WriteCloser, error) {
	file, err := r.Raw(name)
	if err != nil {
		return nil, err
	}
	out := redact.NewTarWriter(r.secrets, file)
	return cleaned{out, func() { r.noteRedacted(name, out.Found(), out.Files()) }}, nil
}

// Echo is how often a server said a secret.
type Echo struct {
	Secret string `json:"secret"`           // as SERVER/NAME; it need not be the server's own
	Frames int    `json:"frames,omitempty"` // times in messages to the client
	Stderr int    `json:"stderr,omitempty"` // times in what it wrote there
}
