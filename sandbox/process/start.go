package process

import (
	"cmp"
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
)

// Pipes are the pipes of a program's stdin, stdout and stderr, with the program's ends and
// ours.
type Pipes struct{ Theirs, Ours [3]*os.File }

// OpenPipes opens the pipes of a program that is about to be started.
func OpenPipes() (p Pipes, err error) {
	for i := range p.Theirs {
		if p.Theirs[i], p.Ours[i], err = os.Pipe(); err != nil {
			return p, errors.Join(err, p.CloseTheirs(), p.CloseOurs())
		}
		if i > 0 { // the program writes to stdout and stderr
			p.Theirs[i], p.Ours[i] = p.Ours[i], p.Theirs[i]
		}
	}
	return p, nil
}

// CloseTheirs closes the program's ends, after it was started.
func (p Pipes) CloseTheirs() error { return closeAll(p.Theirs) }

// CloseOurs closes our ends, if the program could not be started.
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

// LastOfEach returns env with only the last value of each variable.
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

// Find looks up a program like execvp(3) in the last PATH of env, relative to dir. It also
// returns that PATH. path is "" if there is no such executable.
func Find(name string, env []string, dir string) (path, search string) {
	search, _ = LookupEnv(env, "PATH")
	for _, d := range filepath.SplitList(search) {
		if !filepath.IsAbs(d) {
			d = filepath.Join(dir, d)
		}
		for _, ending := range endings(env) {
			if path := filepath.Join(d, name+ending); IsExecutable(path) {
				return path, search
			}
		}
	}
	return "", search
}

// IsExecutable reports whether path is an executable file.
func IsExecutable(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.Mode().IsRegular() && (info.Mode()&0o111 != 0 || runtime.GOOS == "windows")
}

// endings returns the suffixes that a program's file may have in addition to its name.
func endings(env []string) []string {
	if runtime.GOOS != "windows" {
		return []string{""}
	}
	known, _ := LookupEnv(env, "PATHEXT")
	return append([]string{""}, strings.Split(strings.ToLower(cmp.Or(known, ".com;.exe;.bat;.cmd")), ";")...)
}
