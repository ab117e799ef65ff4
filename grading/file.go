package grading

import (
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/waza-isolate/waza/evidence"
)

// FileConfig configures the file grader, which checks the workspace after the agent
// stopped. Each path and each expression is one check; a file with expressions adds the
// check that it is readable.
type FileConfig struct {
	_ struct{} `unknown:"warn"`

	MustExist       []string         `json:"must_exist,omitempty" jsonschema:"paths in the workspace that must exist; a link must lead to something there, by a relative path"`
	MustNotExist    []string         `json:"must_not_exist,omitempty" jsonschema:"paths in the workspace that must not exist"`
	ContentPatterns []ContentPattern `json:"content_patterns,omitempty" jsonschema:"requirements on the content of files, which must be regular files of up to 16 MiB"`
}

// ContentPattern is what a file of the workspace must and must not contain.
type ContentPattern struct {
	_ struct{} `unknown:"warn"`

	Path         string   `json:"path" jsonschema:"path of the file in the workspace"`
	MustMatch    []string `json:"must_match,omitempty" jsonschema:"RE2 expressions that must match somewhere in the file"`
	MustNotMatch []string `json:"must_not_match,omitempty" jsonschema:"RE2 expressions that must not match in the file"`
}

// Validate refuses an empty config, paths that lead out of the workspace and
// expressions that do not compile.
func (c *FileConfig) Validate() error {
	if len(c.MustExist)+len(c.MustNotExist)+len(c.ContentPatterns) == 0 {
		return errEmpty
	}
	var errs []error
	for _, p := range slices.Concat(c.MustExist, c.MustNotExist) {
		errs = append(errs, inside(p))
	}
	for i, pattern := range c.ContentPatterns {
		field := fmt.Sprintf("content_patterns[%d].", i)
		errs = append(errs, inside(pattern.Path),
			compilable(field+"must_match", pattern.MustMatch),
			compilable(field+"must_not_match", pattern.MustNotMatch))
	}
	return errors.Join(errs...)
}

// inside refuses a path outside of the workspace.
func inside(p string) error {
	clean := path.Clean(p)
	switch {
	case p == "" || strings.ContainsRune(p, 0):
		return fmt.Errorf("path %q: not a path", p)
	case path.IsAbs(p):
		return fmt.Errorf("path %q: absolute; give it relative to the workspace", p)
	case clean == ".." || strings.HasPrefix(clean, "../"):
		return fmt.Errorf("path %q: leads out of the workspace", p)
	}
	return nil
}

func (c *FileConfig) grade(s *subject) (report, error) {
	if err := s.kept(evidence.GapWorkspace); err != nil {
		return report{}, err
	}
	files, err := readWorkspace(s.dir, c.paths())
	if err != nil {
		return report{}, fmt.Errorf("%w: %s", errEvidence, s.explain(err))
	}
	var r report
	for _, p := range c.MustExist {
		if err := nameRemoved(s.trial, path.Clean(p)); err != nil {
			r.lacks(err)
			continue
		}
		exists, not := files.exists(p)
		r.check("must_exist", exists, "Expected %s to exist; %s.", quote(p), not)
	}
	for _, p := range c.MustNotExist {
		if err := nameRemoved(s.trial, path.Clean(p)); err != nil {
			r.lacks(err)
			continue
		}
		found := files.at(p)
		r.check("must_not_exist", found == nil, "Expected %s not to exist; there is %s.", quote(p), found)
	}
	for _, pattern := range c.ContentPatterns {
		content := files.read(&r, s.trial, pattern.Path)
		content.matches(&r, "must_match", pattern.MustMatch...)
		content.matchesNone(&r, "must_not_match", pattern.MustNotMatch...)
	}
	return r, nil
}

// paths returns the paths to check; the value is true if the content is needed.
func (c *FileConfig) paths() map[string]bool {
	wanted := map[string]bool{}
	for _, p := range slices.Concat(c.MustExist, c.MustNotExist) {
		wanted[path.Clean(p)] = false
	}
	for _, pattern := range c.ContentPatterns {
		wanted[path.Clean(pattern.Path)] = true
	}
	return wanted
}
