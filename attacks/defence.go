package attacks

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// Defence is what holds attacks, and how it is taken out of the source.
type Defence struct {
	Name  string // in a few words, unique
	Edits []Edit
	// Build names the executable that it is taken out in. Defences share one where no
	// attack that one of them holds gets in the way of another's.
	Build string
	// Kept says why it cannot be taken out by an edit. It has no Edits and no Build then,
	// and SECURITY.md says so.
	Kept string
}

// Edit replaces Old by New in a file of the source. Old occurs there exactly once.
// Two defences may have the same edit.
type Edit struct {
	File     string // from the root of the module
	Old, New string
}

// overlay writes edited copies of source files into dir, and there the file that go
// build -overlay reads. The source is not touched.
func overlay(root, dir string, edits []Edit) (string, error) {
	edited := map[string]string{}
	var errs []error
	for i, e := range edits {
		if slices.Contains(edits[:i], e) {
			continue // of two defences
		}
		content, known := edited[e.File]
		if !known {
			data, err := os.ReadFile(filepath.Join(root, e.File))
			if err != nil {
				return "", err
			}
			content = string(data)
		}
		if n := strings.Count(content, e.Old); n != 1 {
			errs = append(errs, fmt.Errorf("%s: %q occurs %d times, want 1", e.File, e.Old, n))
		}
		edited[e.File] = strings.Replace(content, e.Old, e.New, 1)
	}
	if len(errs) > 0 {
		return "", errors.Join(errs...)
	}
	replace := map[string]string{}
	for name, content := range edited {
		copied := filepath.Join(dir, strings.ReplaceAll(name, "/", "_"))
		if err := os.WriteFile(copied, []byte(content), 0o600); err != nil {
			return "", err
		}
		replace[filepath.Join(root, name)] = copied
	}
	data, err := json.Marshal(map[string]any{"Replace": replace})
	if err != nil {
		return "", err
	}
	file := filepath.Join(dir, "overlay.json")
	return file, os.WriteFile(file, data, 0o600)
}
