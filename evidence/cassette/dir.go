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

// Cassette has the sides of what a run talks to.
type Cassette struct {
	Sides map[Kind]map[string]*Side // by name
	// Tasks has what is for one task alone, by its id. It has no tasks of its own.
	Tasks map[string]*Cassette
	// Files are the names of the files that it was read from.
	Files []string
}

// Kind is what a side stands for. It is the name of the directory with such sides.
type Kind string

// All kinds of sides.
const (
	Servers  Kind = "servers"
	Models   Kind = "models"
	Commands Kind = "commands"
	Judges   Kind = "judges"
)

// Judge is the name of the side of the judge that a trial has.
const Judge = "judge"

// Kinds returns all kinds of sides.
func Kinds() []Kind { return []Kind{Servers, Models, Commands, Judges} }

// What the directory of a cassette holds besides directories of sides: the file head, a directory of
// such directories for each task, and long values by their SHA-256.
const (
	head  = "cassette.yaml"
	tasks = "tasks"
	blobs = "blobs"
	ext   = ".yaml"
)

// schemaURL is where editors find the schema of a side.
const schemaURL = "https://raw.githubusercontent.com/waza-isolate/waza/main/schemas/side.schema.json"

// Side returns a side as a task has it: its own entries, and then those that are for all tasks. It
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

// Names returns the names of the sides of a kind, of all tasks.
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

// Limits of a cassette. What its files may hold besides is limited by package strictyaml.
const (
	maxInline = 4 << 10   // bytes of a value in the file of a side, if there is room; a longer one is a blob
	maxBlob   = 32 << 20  // bytes of a blob
	maxTotal  = 256 << 20 // bytes of all that is read
	maxSides  = 1000      // of a kind
)

var (
	sideName = regexp.MustCompile(`^[A-Za-z0-9_][A-Za-z0-9._-]{0,99}$`)
	blobName = regexp.MustCompile(`^[0-9a-f]{64}$`)
)

// Read reads the cassette in a directory, whose sides can be played. It follows no link in it, and
// refuses what belongs to no cassette.
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
	dir   string                     // as it was named
	read  []string                   // names of files
	left  int64                      // bytes that may still be read
	blobs map[string]json.RawMessage // that were read, by digest
}

// whole reads a cassette with what it has for tasks.
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

// check returns an error if what a task has of its own does not go with what all tasks have.
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

// cassette reads the sides in the directories of one directory, which may have others besides.
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

// readSide reads the file of a side. It gets values by their digests from blob.
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

// blob reads a value, whose bytes must have the digest.
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

// file reads a file with no link on the way.
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

// names returns the sorted names in a directory with no link on the way.
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

// plain returns an error if a path leads over a link, or to something else than a file or a directory.
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

// Write writes a cassette to a directory, in place of one that is there. The same cassette is the same
// bytes.
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

// write writes files, by their paths in a directory.
func write(dir string, content map[string][]byte) error {
	for _, name := range slices.Sorted(maps.Keys(content)) {
		at := filepath.Join(dir, filepath.FromSlash(name))
		if err := errors.Join(files.MakeDir(filepath.Dir(at)), files.Write(at, content[name])); err != nil {
			return err
		}
	}
	return nil
}

// AddTask adds what a cassette has for a task to the cassette in a directory, or to a new one there, as that of
// another task alone. All else there stays as it is.
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

// makeEmpty makes a directory, or removes the cassette that is in it. It leaves anything else alone.
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

// files returns the content of a cassette's files, by their paths.
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

// addFiles adds the content of the files of sides and of their values.
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

// check returns an error if an answer is not JSON, or too long to be read again.
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

// addFile adds the file of a side, with fewer values in it if it is too long to be read again.
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

// isIn returns an error unless the file of a side is read as the side.
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

// file returns the file of a side, which has values of up to longest bytes. It adds those of others to
// all, as blobs.
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

// keepsBytes reports whether YAML gives a value back to the byte.
func keepsBytes(value json.RawMessage) bool {
	var back json.RawMessage
	doc, err := strictyaml.Parse("", yamltext.Block([]byte(`{"value":`+string(value)+`}`)))
	return err == nil && doc.DecodeAt(&back, "value") && bytes.Equal(back, value)
}

// Legible returns a value whose layout does not matter as a blob is best read and compared: a short
// one, which will be none, as it is.
func Legible(value json.RawMessage) json.RawMessage {
	if len(value) <= maxInline {
		return value
	}
	return append(jsontext.Indent(value), '\n')
}
