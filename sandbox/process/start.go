package process

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// Pipes are the pipes of a program's stdin, stdout and stderr: the program's ends, and ours.
type Pipes struct{ Theirs, Ours [3]*os.File }

// OpenPipes opens the pipes of a program that is about to be started.
func OpenPipes() (p Pipes, err error) {
	for i := range p.Theirs {
		if p.Theirs[i], p.Ours[i], err = os.Pipe(); err != nil {
			return p, errors.Join(err, p.CloseTheirs(), p.CloseOurs())
		}
		if i > 0 { // the program writes there
			p.Theirs[i], p.Ours[i] = p.Ours[i], p.Theirs[i]
		}
	}
	return p, nil
}

// CloseTheirs closes the program's ends, once it has them.
func (p Pipes) CloseTheirs() error { return closeAll(p.Theirs) }

// CloseOurs closes our ends, where the program could not be started.
func (p Pipes) CloseOurs() error { return closeAll(p.Ours) }

func closeAll(files [3]*os.File) error {
	var errs []error
	for _, f := range files {
		if f != nil {
			errs = append(errs, f.Close())
		}
	}
	return errors.Join(errs...)
}

// LastOfEach keeps the last value of each variable.
func LastOfEach(env []string) []string {
	var kept []string
	seen := map[string]bool{}
	for _, kv := range slices.Backward(env) {
		key, _, _ := strings.Cut(kv, "=")
		if !seen[key] {
			seen[key] = true
			kept = append(kept, kv)
		}
	}
	slices.Reverse(kept)
	return kept
}

// Find finds a program of that name as execvp(3) does, in the PATH that env has last and from the
// directory that the program itself will have. It returns that PATH too; path is empty if no
// executable file is there.
func Find(name string, env []string, dir string) (path, search string) {
	for _, kv := range env {
		if value, ok := strings.CutPrefix(kv, "PATH="); ok {
			search = value
		}
	}
	for _, d := range filepath.SplitList(search) {
		if !filepath.IsAbs(d) {
			d = filepath.Join(dir, d)
		}
		if path := filepath.Join(d, name); IsExecutable(path) {
			return path, search
		}
	}
	return "", search
}

// IsExecutable reports whether a file can be run.
func IsExecutable(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.Mode().IsRegular() && info.Mode()&0o111 != 0
}
