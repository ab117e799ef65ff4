package evidence

import (
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"

	"github.com/waza-isolate/waza/sandbox/observe"
)

// Observed is one line of observed.jsonl: what the programs of one box did beside
// answering, as its guest and the runner saw it. A guest is in its box's hands, so each
// line is the box's word where the runner did not see it itself.
type Observed struct {
	Box string `json:"box"` // "agent", a server's name, or SERVER/SERVICE
	observe.Seen
}

// What is seen of a box.
type (
	FileChange = observe.FileChange
	Program    = observe.Program
	Connection = observe.Connection
)

// Egress is the data of an event of kind egress: one connection that a box asked to have
// carried out of its sandbox.
type Egress struct {
	Name    string `json:"name"` // of the host that was asked for
	Port    int    `json:"port"`
	By      string `json:"by"` // tls, http or connect: what told the name
	Allowed bool   `json:"allowed"`
	Address string `json:"address,omitempty"` // that was dialled
	Why     string `json:"why,omitempty"`     // it was not carried, or ended early
	Out     int64  `json:"bytes_out"`
	In      int64  `json:"bytes_in"`
	MS      int64  `json:"ms"`
}

// Observed writes observed.jsonl, redacted.
func (r *Recorder) Observed(all []Observed) error {
	out, err := r.Raw(ObservedFile)
	if err != nil {
		return err
	}
	for _, o := range all {
		var line []byte
		if line, err = Marshal(o); err != nil {
			break
		}
		line, found := r.secrets.CutJSON(line)
		r.noteRedacted(ObservedFile, found, nil)
		if _, err = out.Write(append(line, '\n')); err != nil {
			break
		}
	}
	return r.note(errors.Join(err, out.Close()))
}

// Observed reads observed.jsonl. Where nothing was watched, as in runs of before, there
// is no such file, and none.
func (d Dir) Observed() ([]Observed, error) {
	all, err := collect(readLines[Observed](d, ObservedFile))
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	return all, err
}

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
