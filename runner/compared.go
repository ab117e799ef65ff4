package runner

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/waza-isolate/waza/evidence"
	"github.com/waza-isolate/waza/results"
)

// ReadEntry reads a run to compare: its directory, or a results.json, which may be of
// upstream waza's making. What the run was made with is told by a run.json beside its
// results; without one that can be read it is not known.
func ReadEntry(path string) (results.Entry, error) {
	entry := results.Entry{Path: path}
	info, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return entry, fmt.Errorf("%s is no run directory and no %s: it is not there", path, ResultsFile)
	}
	if err != nil {
		return entry, err
	}
	dir, open := path, func() (*os.File, error) { return evidence.Open(path, ResultsFile) }
	if !info.IsDir() {
		dir, open = filepath.Dir(path), func() (*os.File, error) { return os.Open(path) }
		if !info.Mode().IsRegular() {
			return entry, fmt.Errorf("%s is no file", path)
		}
	}
	if record, err := ReadRecord(dir); err == nil {
		entry.Made = record.Settings()
	} else if errors.Is(err, evidence.ErrNotPlain) {
		return entry, err
	}
	file, err := open()
	if errors.Is(err, fs.ErrNotExist) {
		return entry, fmt.Errorf("%s is no run directory: it has no %s", dir, ResultsFile)
	}
	if err != nil {
		return entry, err
	}
	defer func() { _ = file.Close() }()
	if entry.Outline, err = results.ReadOutline(file); err != nil {
		return entry, fmt.Errorf("%s: %w", file.Name(), err)
	}
	return entry, nil
}

// Settings are what a run was made with, as far as it may differ between runs that are
// compared.
func (r Record) Settings() []results.Setting {
	all := []results.Setting{
		{Name: "eval file", Value: brief(r.Eval.SHA256)},
		{Name: "files of the eval", Value: digestOf(r.Inputs)},
		{Name: "waza", Value: strings.TrimSpace(r.Waza + " " + r.Build)},
		{Name: "network", Value: r.Network},
		{Name: "skills left out", Value: map[bool]string{true: "yes", false: "no"}[r.NoSkills]},
		{Name: "engine", Value: r.Engine["version"]},
	}
	if r.MCP != nil {
		all = append(all, results.Setting{Name: "servers laid over", Value: brief(r.MCP.SHA256)})
	}
	for _, ref := range slices.Sorted(maps.Keys(r.Images)) {
		all = append(all, results.Setting{Name: "image " + ref, Value: brief(strings.TrimPrefix(r.Images[ref].ID, "sha256:"))})
	}
	return all
}

// digestOf tells files apart by the digests that they have by name; empty without any.
func digestOf(files map[string]string) string {
	if len(files) == 0 {
		return ""
	}
	sum := sha256.New()
	for _, name := range slices.Sorted(maps.Keys(files)) {
		_, _ = fmt.Fprintf(sum, "%q %q\n", name, files[name]) // a hash takes all
	}
	return brief(hex.EncodeToString(sum.Sum(nil)))
}

// brief is the beginning of a digest, which tells it from others.
func brief(digest string) string { return fmt.Sprintf("%.12s", digest) }
