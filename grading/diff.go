package grading

import (
	"errors"
	"fmt"
	"path"
	"strings"

	"github.com/waza-isolate/waza/evidence"
)

// DiffConfig configures the diff grader, which compares files of the workspace with expected contents. Each
// readable file, each snapshot and each fragment is one check.
type DiffConfig struct {
	_ struct{} `unknown:"warn"`

	ExpectedFiles   []ExpectedFile `json:"expected_files" jsonschema:"files of the workspace, which must be regular files of up to 16 MiB"`
	ContextDir      string         `json:"context_dir,omitempty" jsonschema:"directory of the snapshots, relative to the eval; default the directory of the eval"`
	UpdateSnapshots bool           `json:"update_snapshots,omitempty" jsonschema:"has no effect; use --update-snapshots to write snapshots"`

	snapshots map[string][]byte
}

// ExpectedFile is the expected content of a file in the workspace after the agent stopped.
type ExpectedFile struct {
	_ struct{} `unknown:"warn"`

	Path     string   `json:"path" jsonschema:"path of the file in the workspace"`
	Snapshot string   `json:"snapshot,omitempty" jsonschema:"file of up to 1 MiB in context_dir that it must equal, byte for byte"`
	Contains []string `json:"contains,omitempty" jsonschema:"fragments: TEXT or +TEXT must be in the file, -TEXT must not; spaces around TEXT are ignored"`
}

// Validate refuses entries that check nothing, and paths that lead out of the workspace.
func (c *DiffConfig) Validate() error {
	var errs []error
	for i, f := range c.ExpectedFiles {
		field := fmt.Sprintf("expected_files[%d]", i)
		errs = append(errs, inside(f.Path))
		if f.Snapshot == "" && len(f.Contains) == 0 {
			errs = append(errs, fmt.Errorf("%s: needs snapshot or contains; to check only whether the file exists, use the file grader", field))
		}
		for j, fragment := range f.Contains {
			if text, _ := readFragment(fragment); text == "" {
				errs = append(errs, fmt.Errorf("%s.contains[%d]: no text", field, j))
			}
		}
	}
	return errors.Join(errs...)
}

// readFragment splits a fragment into the text and whether the file must not contain the text.
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
func (c *DiffConfig) read(dir evidence.Dir) (workspace, error) {
	wanted := map[string]bool{}
	for _, f := range c.ExpectedFiles {
		wanted[path.Clean(f.Path)] = true
	}
	return readWorkspace(dir, wanted)
}

// Snapshots returns the contents of the workspace files that a diff grader compares with snapshots, by the
// names of the snapshots; dir is the trial's. It returns nothing for other graders, and omits files that
// cannot be read.
func Snapshots(dir evidence.Dir, spec evidence.GraderSpec) map[string][]byte {
	g, err := load(spec)
	c, ok := g.(*DiffConfig)
	if err != nil || !ok {
		return nil
	}
	files, err := c.read(dir)
	if err != nil {
		return nil // reported by Validate of the grader
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
		content := files.read(&r, s.trial, f.Path)
		if f.Snapshot != "" {
			c.compare(&r, f, content)
		}
		for _, fragment := range f.Contains {
			if text, absent := readFragment(fragment); absent {
				content.lacks(&r, "contains", text)
			} else {
				content.contains(&r, "contains", text)
			}
		}
	}
	return r, nil
}

// compare checks that a file equals its snapshot.
func (c *DiffConfig) compare(r *report, f ExpectedFile, content checkedText) {
	want := string(c.snapshots[c.snapshot(f)])
	switch {
	case content.removed != nil:
		r.lacks(content.removed)
	case content.unread:
		r.check("snapshot", false, "Could not compare %s with %s.", content.what, quote(f.Snapshot))
	case want == content.text:
		r.check("snapshot", true, "Expected %s to equal the snapshot %s; it does.", content.what, quote(f.Snapshot))
	default:
		r.check("snapshot", false, "Expected %s to equal the snapshot %s; %s.", content.what, quote(f.Snapshot), firstDifference(want, content.text))
	}
}

// firstDifference describes the first line in which two contents differ.
func firstDifference(want, got string) string {
	for number := 1; ; number++ {
		wanted, gotten := lineOf(want), lineOf(got)
		switch {
		case wanted == gotten:
			want, got = want[len(wanted):], got[len(gotten):]
			continue
		case gotten == "":
			return fmt.Sprintf("it ends after line %d, where %s was expected", number-1, quote(wanted))
		case wanted == "":
			return fmt.Sprintf("it goes on after line %d with %s, where the end was expected", number-1, quote(gotten))
		}
		return fmt.Sprintf("line %d is %s, where %s was expected", number, quote(gotten), quote(wanted))
	}
}

// lineOf returns the first line of a text, with its end.
func lineOf(text string) string {
	line, _, more := strings.Cut(text, "\n")
	if more {
		line += "\n"
	}
	return line
}
