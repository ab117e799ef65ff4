package cassette

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"math"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/waza-isolate/waza/internal/defence"
	"github.com/waza-isolate/waza/internal/files"
	"github.com/waza-isolate/waza/internal/jsontext"
	"github.com/waza-isolate/waza/internal/strictyaml"
	"github.com/waza-isolate/waza/internal/tree"
	"github.com/waza-isolate/waza/internal/yamltext"
)

// Cassette holds the sides of everything that a run talks to.
type Cassette struct {
	Sides map[Kind]map[string]*Side // by name
	// Tasks holds what applies to single tasks, by task ID. These cassettes have no tasks of their own.
	Tasks map[string]*Cassette
	// Files are the names of the files from which it was read.
	Files []string
}

// Kind is what a side answers for. It is also the name of the directory with such sides.
type Kind string

// All kinds of sides.
const (
	Servers  Kind = "servers"
	Models   Kind = "models"
	Commands Kind = "commands"
	Judges   Kind = "judges"
)

// Judge is the name of the side of a trial's judge.
const Judge = "judge"

// Kinds returns all kinds of sides.
func Kinds() []Kind { return []Kind{Servers, Models, Commands, Judges} }

// Contents of a cassette's directory other than directories of sides: the file head, a directory with such
// directories for each task, and long values, named by their SHA-256.
const (
	head  = "cassette.yaml"
	tasks = "tasks"
	blobs = "blobs"
	ext   = ".yaml"
)

// schemaURL is the URL from which editors fetch the schema of a side.
const schemaURL = "https://raw.githubusercontent.com/waza-isolate/waza/main/schemas/side.schema.json"

// Side returns a side as a task sees it: the task's own entries, followed by the entries for all tasks. It
// returns nil if there are none.
func (c *Cassette) Side(kind Kind, task, name string) (*Side, error) {
	shared, own := c.Sides[kind][name], (*Side)(nil)
	if c.Tasks[task] != nil {
		own = c.Tasks[task].Sides[kind][name]
	}
	switch {
	case own == nil:
		return shared, nil
	case shared == nil:
		return own, nil
	}
	both := &Side{
		Find: cmp.Or(own.Find, shared.Find), State: map[string]json.RawMessage{},
		Entries: slices.Concat(own.Entries, shared.Entries),
	}
	maps.Copy(both.State, shared.State)
	maps.Copy(both.State, own.State)
	if err := both.Compile(); err != nil {
		return nil, fmt.Errorf("%s/%s of task %s: %w", kind, name, task, err)
	}
	return both, nil
}

// Names returns the names of the sides of a kind, including those of tasks.
func (c *Cassette) Names(kind Kind) []string {
	all := map[string]bool{}
	for _, one := range append(slices.Collect(maps.Values(c.Tasks)), c) {
		for name := range one.Sides[kind] {
			all[name] = true
		}
	}
	return slices.Sorted(maps.Keys(all))
}

// Add adds a side.
func (c *Cassette) Add(kind Kind, name string, s *Side) {
	if c.Sides == nil {
		c.Sides = map[Kind]map[string]*Side{}
	}
	if c.Sides[kind] == nil {
		c.Sides[kind] = map[string]*Side{}
	}
	c.Sides[kind][name] = s
}

// Limits of a cassette. Package strictyaml limits the content of its files further.
const (
	maxInline = 4 << 10   // bytes of a value in a side's file, if there is room; a longer value becomes a blob
	maxBlob   = 32 << 20  // bytes of a blob
	maxTotal  = 256 << 20 // bytes read in total
	maxSides  = 1000      // of a kind
)

var (
	sideName = regexp.MustCompile(`^[A-Za-z0-9_][A-Za-z0-9._-]{0,99}$`)
	blobName = regexp.MustCompile(`^[0-9a-f]{64}$`)
)

// Read reads the cassette in a directory; its sides can be played. It does not follow links in the directory,
// and rejects files that are not part of a cassette.
func Read(dir string) (*Cassette, error) {
	root, err := files.Dir(files.Named(dir))
	if err != nil {
		return nil, fmt.Errorf("cassette %s: %w", dir, files.Cause(err))
	}
	defer func() { _ = root.Close() }()
	r := &reader{root: root, dir: dir, left: maxTotal, blobs: map[string]json.RawMessage{}}
	c, err := r.whole()
	if err != nil {
		return nil, fmt.Errorf("cassette %s: %w", dir, err)
	}
	c.Files = r.read
	return c, nil
}

// reader reads the directory of a cassette.
type reader struct {
	root  *os.Root
	dir   string                     // the directory, as the user wrote it
	read  []string                   // names of the files read so far
	left  int64                      // bytes that may still be read
	blobs map[string]json.RawMessage // blobs read so far, by digest
}

// whole reads a cassette with its tasks.
func (r *reader) whole() (*Cassette, error) {
	content, err := r.file(head, strictyaml.MaxBytes)
	if err != nil {
		return nil, err
	}
	if err := decode(head, content, &struct {
		Version int `json:"version" min:"1" max:"1"`
	}{}); err != nil {
		return nil, err
	}
	c, err := r.cassette(".", head, blobs, tasks)
	if err != nil {
		return nil, err
	}
	if _, err := r.root.Lstat(tasks); errors.Is(err, fs.ErrNotExist) {
		return c, nil
	}
	names, err := r.names(tasks)
	if err != nil {
		return nil, err
	}
	c.Tasks = map[string]*Cassette{}
	for _, name := range names {
		if !sideName.MatchString(name) {
			return nil, fmt.Errorf("%s: %q is not the id of a task; rename or remove it", tasks, name)
		}
		if c.Tasks[name], err = r.cassette(path.Join(tasks, name)); err != nil {
			return nil, err
		}
	}
	return c, c.check()
}

// check returns an error if a task's own sides are incompatible with those for all tasks.
func (c *Cassette) check() error {
	for _, task := range slices.Sorted(maps.Keys(c.Tasks)) {
		for kind, sides := range c.Tasks[task].Sides {
			for name := range sides {
				if _, err := c.Side(kind, task, name); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// cassette reads the directories of sides in dir. Other entries of dir are rejected unless besides names
// them.
func (r *reader) cassette(dir string, besides ...string) (*Cassette, error) {
	names, err := r.names(dir)
	if err != nil {
		return nil, err
	}
	c := &Cassette{Sides: map[Kind]map[string]*Side{}}
	for _, name := range names {
		switch {
		case slices.Contains(Kinds(), Kind(name)):
			if c.Sides[Kind(name)], err = r.sides(path.Join(dir, name)); err != nil {
				return nil, err
			}
		case !slices.Contains(besides, name):
			return nil, fmt.Errorf("%q is no part of a cassette; remove it", path.Join(dir, name))
		}
	}
	return c, nil
}

// sides reads the sides in a directory.
func (r *reader) sides(dir string) (map[string]*Side, error) {
	names, err := r.names(dir)
	if err != nil {
		return nil, err
	}
	all := map[string]*Side{}
	for _, file := range names {
		name, is := strings.CutSuffix(file, ext)
		if !is || !sideName.MatchString(name) {
			return nil, fmt.Errorf("%s: %q is not the name of a side, of letters, digits, '.', '_' and '-', and %s; rename or remove it", dir, file, ext)
		}
		content, err := r.file(path.Join(dir, file), strictyaml.MaxBytes)
		if err != nil {
			return nil, err
		}
		if all[name], err = readSide(path.Join(dir, file), content, r.blob); err != nil {
			return nil, err
		}
	}
	return all, nil
}

// readSide reads a side's file. blob returns a value by its digest.
func readSide(file string, content []byte, blob func(digest string) (json.RawMessage, error)) (*Side, error) {
	s := &Side{}
	if err := decode(file, content, s); err != nil {
		return nil, err
	}
	for i := range s.Entries {
		s.Entries[i].at = fmt.Sprintf("entries[%d] of %s", i, file)
		for _, a := range s.Entries[i].All() {
			if (a.Value == nil) == (a.Blob == "") {
				return nil, fmt.Errorf("%s: entries[%d]: give an answer a value or a blob", file, i)
			}
			if a.Blob == "" {
				continue
			}
			value, err := blob(a.Blob)
			if err != nil {
				return nil, fmt.Errorf("%s: entries[%d]: %w", file, i, err)
			}
			a.Value, a.Blob = value, ""
		}
	}
	if err := s.Compile(); err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	return s, nil
}

// All returns the answers of an entry.
func (e *Entry) All() []*Answer {
	var all []*Answer
	if e.Answer != nil {
		all = append(all, e.Answer)
	}
	for i := range e.Answers {
		all = append(all, &e.Answers[i])
	}
	return all
}

func decode(file string, content []byte, into any) error {
	doc, err := strictyaml.Parse(file, content)
	if err != nil {
		return err
	}
	doc.Decode(into)
	return doc.Err()
}

// blob reads a value and checks its digest.
func (r *reader) blob(digest string) (json.RawMessage, error) {
	if value, known := r.blobs[digest]; known {
		return value, nil
	}
	if defence.ConfinedCassettes && !blobName.MatchString(digest) {
		return nil, fmt.Errorf("blob %q is not a SHA-256 in hexadecimal", digest)
	}
	name := path.Join(blobs, digest)
	content, err := r.file(name, maxBlob)
	if err != nil {
		return nil, err
	}
	if sum, err := files.DigestOf(bytes.NewReader(content)); defence.BlobDigests && (err != nil || sum != digest) {
		return nil, fmt.Errorf("%s has another content than was recorded: its SHA-256 is %s", name, sum)
	}
	if _, err := jsontext.Parse(content); err != nil {
		return nil, fmt.Errorf("%s is not JSON: %w", name, err)
	}
	r.blobs[digest] = content
	return content, nil
}

// file reads a file. No element of its path may be a link.
func (r *reader) file(name string, most int64) ([]byte, error) {
	if err := r.plain(name); err != nil && defence.ConfinedCassettes {
		return nil, err
	}
	file, err := files.OpenAt(r.root, name)
	if !defence.ConfinedCassettes {
		file, err = os.Open(filepath.Join(r.dir, filepath.FromSlash(name)))
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, files.Cause(err))
	}
	defer func() { _ = file.Close() }()
	most = min(most, r.left)
	if !defence.BoundedCassettes {
		most = math.MaxInt32
	}
	content, err := files.ReadFrom(file, most)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, files.Cause(err))
	}
	r.left -= int64(len(content))
	r.read = append(r.read, name)
	return content, nil
}

// names returns the sorted names in a directory. No element of its path may be a link.
func (r *reader) names(dir string) ([]string, error) {
	if err := r.plain(dir); err != nil {
		return nil, err
	}
	in, err := r.root.OpenRoot(dir)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", dir, files.Cause(err))
	}
	defer func() { _ = in.Close() }()
	names, err := tree.Names(in)
	if err == nil && len(names) > maxSides {
		err = fmt.Errorf("has more than %d files", maxSides)
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", dir, err)
	}
	return names, nil
}

// plain returns an error if a path leads through a link, or to anything but a file or a directory.
func (r *reader) plain(name string) error {
	if dir := path.Dir(name); dir != name && dir != "." {
		if err := r.plain(dir); err != nil {
			return err
		}
	}
	info, err := r.root.Lstat(name)
	switch {
	case err != nil:
		return fmt.Errorf("%s: %w", name, files.Cause(err))
	case info.Mode()&fs.ModeSymlink != 0:
		return fmt.Errorf("%s is a link; put what it leads to in its place", name)
	case !info.IsDir() && !info.Mode().IsRegular():
		return fmt.Errorf("%s %w", name, files.ErrNotRegular)
	}
	return nil
}

// Write writes a cassette to a directory, and replaces a cassette that is there. Equal cassettes are written
// as equal bytes.
func (c *Cassette) Write(dir string) error {
	dir = files.Named(dir)
	content, err := c.files()
	if err != nil {
		return err
	}
	if err := makeEmpty(dir); err != nil {
		return fmt.Errorf("cassette %s: %w", dir, err)
	}
	return write(dir, content)
}

// write writes files, by their paths relative to dir.
func write(dir string, content map[string][]byte) error {
	for _, name := range slices.Sorted(maps.Keys(content)) {
		at := filepath.Join(dir, filepath.FromSlash(name))
		if err := errors.Join(files.MakeDir(filepath.Dir(at)), files.Write(at, content[name])); err != nil {
			return err
		}
	}
	return nil
}

// AddTask adds the sides that task from has in c to the cassette in a directory, as sides of task to alone.
// It creates the cassette if there is none, and changes nothing else there.
func (c *Cassette) AddTask(dir, from, to string) error {
	own := &Cassette{}
	for _, kind := range Kinds() {
		for _, name := range c.Names(kind) {
			side, err := c.Side(kind, from, name)
			if err != nil {
				return err
			}
			if side != nil {
				own.Add(kind, name, side)
			}
		}
	}
	all, err := Read(dir)
	if errors.Is(err, fs.ErrNotExist) {
		if all, err = (&Cassette{}), makeEmpty(files.Named(dir)); err != nil {
			err = fmt.Errorf("cassette %s: %w", dir, err)
		}
	}
	if err != nil {
		return err
	}
	all.Tasks = maps.Clone(all.Tasks)
	if all.Tasks == nil {
		all.Tasks = map[string]*Cassette{}
	}
	all.Tasks[to] = own
	content, err := all.files()
	if err != nil {
		return err
	}
	maps.DeleteFunc(content, func(name string, _ []byte) bool {
		return name != head && !strings.HasPrefix(name, blobs+"/") && !strings.HasPrefix(name, path.Join(tasks, to)+"/")
	})
	return write(files.Named(dir), content)
}

// makeEmpty creates a directory, or removes the cassette in it. It returns an error if the directory holds
// anything else.
func makeEmpty(dir string) error {
	if err := files.MakeDir(dir); err != nil {
		return err
	}
	root, err := files.Dir(dir)
	if err != nil {
		return err
	}
	defer func() { _ = root.Close() }()
	names, err := tree.Names(root)
	if err != nil {
		return err
	}
	parts := []string{head, blobs, tasks}
	for _, kind := range Kinds() {
		parts = append(parts, string(kind))
	}
	for _, name := range names {
		if !slices.Contains(parts, name) || !slices.Contains(names, head) {
			return fmt.Errorf("the directory has %q, which is no part of a cassette; name an empty one", name)
		}
	}
	for _, name := range names {
		if err := root.RemoveAll(name); err != nil {
			return err
		}
	}
	return nil
}

// files returns the contents of a cassette's files, by path.
func (c *Cassette) files() (map[string][]byte, error) {
	all := map[string][]byte{head: []byte("version: 1\n")}
	if err := c.addFiles("", all); err != nil {
		return nil, err
	}
	for task, own := range c.Tasks {
		if !sideName.MatchString(task) {
			return nil, fmt.Errorf("%s: %q cannot be the name of a directory", tasks, task)
		}
		if err := own.addFiles(path.Join(tasks, task), all); err != nil {
			return nil, err
		}
	}
	return all, c.check()
}

// addFiles adds the contents of the sides' files and of their blobs.
func (c *Cassette) addFiles(dir string, all map[string][]byte) error {
	for kind, sides := range c.Sides {
		for name, side := range sides {
			file := path.Join(dir, string(kind), name+ext)
			if !sideName.MatchString(name) {
				return fmt.Errorf("%s: %q cannot be the name of a file", kind, name)
			}
			if err := side.check(); err != nil {
				return fmt.Errorf("%s: %w", file, err)
			}
			if err := side.addFile(file, all); err != nil {
				return fmt.Errorf("%s cannot be written: %w", file, err)
			}
		}
	}
	return nil
}

// check returns an error if an answer is not JSON, or is too long to be read back.
func (s *Side) check() error {
	for i := range s.Entries {
		for _, a := range s.Entries[i].All() {
			switch {
			case len(a.Value) > maxBlob:
				return fmt.Errorf("entries[%d]: the value of an answer has more than %d MiB", i, maxBlob>>20)
			case !jsontext.Valid(a.Value):
				return fmt.Errorf("entries[%d]: the value of an answer is not JSON", i)
			}
		}
	}
	return nil
}

// addFile adds the file of a side. If the file is too long to be read back, it moves more values to blobs.
func (s *Side) addFile(name string, all map[string][]byte) (err error) {
	for _, longest := range []int{maxInline, maxInline >> 4, 0} {
		if all[name], err = s.file(longest, all); err != nil {
			return err
		}
		if err = s.isIn(all[name], all); err == nil {
			return nil
		}
	}
	return err
}

// isIn returns an error unless content can be read back as the same side.
func (s *Side) isIn(content []byte, all map[string][]byte) error {
	back, err := readSide("the file", content, func(digest string) (json.RawMessage, error) { return all[path.Join(blobs, digest)], nil })
	if err != nil {
		return err
	}
	got, gotErr := jsontext.Marshal(back)
	want, wantErr := jsontext.Marshal(s)
	if err := errors.Join(gotErr, wantErr); err != nil || bytes.Equal(got, want) {
		return err
	}
	return errors.New("YAML does not give its conditions back as they are")
}

// file returns the file of a side, with values of up to longest bytes. It adds longer values to all, as
// blobs.
func (s *Side) file(longest int, all map[string][]byte) ([]byte, error) {
	written := *s
	written.Entries = slices.Clone(s.Entries)
	for i := range written.Entries {
		e := &written.Entries[i]
		if e.Answer != nil {
			answer := *e.Answer
			e.Answer = &answer
		}
		e.Answers = slices.Clone(e.Answers)
		for _, a := range e.All() {
			if len(a.Value) <= longest && keepsBytes(a.Value) {
				continue
			}
			digest, err := files.DigestOf(bytes.NewReader(a.Value))
			if err != nil {
				return nil, err
			}
			all[path.Join(blobs, digest)] = a.Value
			a.Value, a.Blob = nil, digest
		}
	}
	object, err := jsontext.Marshal(written)
	if err != nil {
		return nil, err
	}
	return append([]byte("# yaml-language-server: $schema="+schemaURL+"\n"), yamltext.Block(object)...), nil
}

// keepsBytes reports whether a value that is written as YAML is read back as the same bytes.
func keepsBytes(value json.RawMessage) bool {
	var back json.RawMessage
	doc, err := strictyaml.Parse("", yamltext.Block([]byte(`{"value":`+string(value)+`}`)))
	return err == nil && doc.DecodeAt(&back, "value") && bytes.Equal(back, value)
}

// Legible returns a value whose layout does not matter, indented so that it is easy to read and compare as a
// blob. It returns a short value, which is not stored as a blob, unchanged.
func Legible(value json.RawMessage) json.RawMessage {
	if len(value) <= maxInline {
		return value
	}
	return append(jsontext.Indent(value), '\n')
}
