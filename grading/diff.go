package grading

import (
	"bytes"
	"errors"
	"fmt"
	"path"
	"strings"

	"github.com/waza-isolate/waza/evidence"
)

// DiffConfig configures the diff grader: how files of the workspace compare with
// what was expected of them. That a file can be read, its snapshot and each fragment
// is one check.
type DiffConfig struct {
	_ struct{} `unknown:"warn"`

	ExpectedFiles   []ExpectedFile `json:"expected_files" jsonschema:"files of the workspace"`
	ContextDir      string         `json:"context_dir,omitempty" jsonschema:"directory of the snapshots, relative to the eval; default the eval's own"`
	UpdateSnapshots bool           `json:"update_snapshots,omitempty" jsonschema:"has no effect: snapshots are written where the command line has --update-snapshots"`

	snapshots map[string][]byte
}

// ExpectedFile is what a file of the workspace holds after the agent stopped.
type ExpectedFile struct {
	_ struct{} `unknown:"warn"`

	Path     string   `json:"path" jsonschema:"path of the file in the workspace"`
	Snapshot string   `json:"snapshot,omitempty" jsonschema:"file in context_dir that it equals, byte for byte"`
	Contains []string `json:"contains,omitempty" jsonschema:"fragments: TEXT or +TEXT stands in the file, -TEXT does not; blanks around TEXT do not count"`
}

// Validate refuses an empty config, entries that check nothing, and paths that lead
// out of the workspace or the eval's directory.
func (c *DiffConfig) Validate() error {
	var errs []error
	for i, f := range c.ExpectedFiles {
		field := fmt.Sprintf("expected_files[%d]", i)
		errs = append(errs, inside(f.Path))
		if f.Snapshot == "" && len(f.Contains) == 0 {
			errs = append(errs, fmt.Errorf("%s: neither snapshot nor contains; to ask only whether it is there, use grader file", field))
		}
		for j, fragment := range f.Contains {
			if text, _ := readFragment(fragment); text == "" {
				errs = append(errs, fmt.Errorf("%s.contains[%d]: no text", field, j))
			}
		}
	}
	return errors.Join(errs...)
}

// readFragment is the text that a file holds, or does not hold where absent is true.
func readFragment(fragment string) (text string, absent bool) {
	switch {
	case strings.HasPrefix(fragment, "-"):
		absent, fragment = true, fragment[1:]
	case strings.HasPrefix(fragment, "+"):
		fragment = fragment[1:]
	}
	return strings.TrimSpace(fragment), absent
}

// Files names the snapshots.
func (c *DiffConfig) Files() []string {
	var names []string
	for _, f := range c.ExpectedFiles {
		if f.Snapshot != "" {
			names = append(names, c.snapshot(f))
		}
	}
	return names
}

// snapshot is the path of f's snapshot, relative to the eval.
func (c *DiffConfig) snapshot(f ExpectedFile) string { return path.Join(c.ContextDir, f.Snapshot) }

// Hold takes the snapshots' contents.
func (c *DiffConfig) Hold(files map[string][]byte) error {
	c.snapshots = files
	return nil
}

// read finds the expected files in the workspace of the trial in dir.
func (c *DiffConfig) read(dir evidence.Dir) (map[string]*entry, error) {
	wanted := map[string]bool{}
	for _, f := range c.ExpectedFiles {
		wanted[path.Clean(f.Path)] = true
	}
	return readWorkspace(dir, wanted)
}

// Snapshots returns what the workspace of the trial in dir has of the files that a diff
// grader compares with snapshots, by the snapshots' names; nothing for other graders, and
// nothing of files that cannot be read.
func Snapshots(dir evidence.Dir, spec evidence.GraderSpec) map[string][]byte {
	g, err := load(spec)
	c, ok := g.(*DiffConfig)
	if err != nil || !ok {
		return nil
	}
	files, err := c.read(dir)
	if err != nil {
		return nil // the grader says so
	}
	found := map[string][]byte{}
	for _, f := range c.ExpectedFiles {
		if file := files[path.Clean(f.Path)]; f.Snapshot != "" && file.unread() == "" && found[c.snapshot(f)] == nil {
			found[c.snapshot(f)] = file.content
		}
	}
	return found
}

func (c *DiffConfig) grade(s *subject) (report, error) {
	if err := s.kept(evidence.GapWorkspace); err != nil {
		return report{}, err
	}
	files, err := c.read(s.dir)
	if err != nil {
		return report{}, fmt.Errorf("%w: %s", errEvidence, s.explain(err))
	}
	var r report
	for _, f := range c.ExpectedFiles {
		c.compare(&r, f, files[path.Clean(f.Path)])
	}
	return r, nil
}

// compare checks one file. Of one that cannot be read every check fails, so that the
// score counts the same checks in every trial.
func (c *DiffConfig) compare(r *report, f ExpectedFile, found *entry) {
	name, unread := quote(f.Path), found.unread()
	r.check(unread == "", "Expected to read %s; %s.", name, unread)
	switch want := c.snapshots[c.snapshot(f)]; {
	case f.Snapshot == "":
	case unread != "":
		r.check(false, "Could not compare %s with %s.", name, quote(f.Snapshot))
	case bytes.Equal(want, found.content):
		r.checks++
	default:
		r.check(false, "Expected %s to equal the snapshot %s; %s.", name, quote(f.Snapshot), firstDifference(want, found.content))
	}
	for _, fragment := range f.Contains {
		text, absent := readFragment(fragment)
		switch {
		case unread != "":
			r.check(false, "Could not look for %s in %s.", quote(text), name)
		case absent:
			r.check(!bytes.Contains(found.content, []byte(text)), "Expected %s not to contain %s; it does.", name, quote(text))
		default:
			r.check(bytes.Contains(found.content, []byte(text)), "Expected %s to contain %s; it does not.", name, quote(text))
		}
	}
}

// firstDifference describes the first line in which two contents differ, which are not
// equal.
func firstDifference(want, got []byte) string {
	for number := 1; ; number++ {
		wanted, gotten := lineOf(want), lineOf(got)
		switch {
		case bytes.Equal(wanted, gotten):
			want, got = want[len(wanted):], got[len(gotten):]
			continue
		case len(gotten) == 0:
			return fmt.Sprintf("it ends after line %d, where %s was expected", number-1, quote(string(wanted)))
		case len(wanted) == 0:
			return fmt.Sprintf("it goes on after line %d with %s, where the end was expected", number-1, quote(string(gotten)))
		}
		return fmt.Sprintf("line %d is %s, where %s was expected", number, quote(string(gotten)), quote(string(wanted)))
	}
}

// lineOf is the first line of text, with its end.
func lineOf(text []byte) []byte {
	if i := bytes.IndexByte(text, '\n'); i >= 0 {
		return text[:i+1]
	}
	return text
}
