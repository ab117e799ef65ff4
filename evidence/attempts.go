package evidence

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
)

// Earlier reads the attempts of a trial that were made again, in order. Each has its
// outcome, also where graders decided that.
func (d Dir) Earlier() ([]Trial, error) {
	at := filepath.Join(string(d), AttemptsDir)
	entries, err := os.ReadDir(at)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var found []Trial
	for _, entry := range entries {
		t, err := readJSON[Trial](d, filepath.Join(AttemptsDir, entry.Name(), TrialFile))
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("attempt: %w", err)
		}
		at := Dir(filepath.Join(string(d), AttemptsDir, entry.Name()))
		verdicts, err := at.Verdicts()
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, fmt.Errorf("attempt: %w", err)
		}
		t.Class, t.Reason, t.Message = t.Outcome(verdicts)
		found = append(found, t)
	}
	slices.SortFunc(found, func(a, b Trial) int { return a.Attempt - b.Attempt })
	return found, nil
}
