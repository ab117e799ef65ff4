package local

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// isPath says whether a command names a file rather than a program of PATH.
func isPath(command string) bool { return strings.Contains(command, "/") }

// lookPath finds a program as execvp(3) does, in the PATH and the directory that
// the program itself will have.
func lookPath(name string, env []string, dir string) (string, error) {
	if isPath(name) {
		path := name
		if !filepath.IsAbs(path) {
			path = filepath.Join(dir, path)
		}
		if !isProgram(path) {
			return "", fmt.Errorf("%s is no program that can be run", path)
		}
		return path, nil
	}
	search := valueOf(env, "PATH")
	for _, d := range filepath.SplitList(search) {
		if !filepath.IsAbs(d) {
			d = filepath.Join(dir, d)
		}
		if path := filepath.Join(d, name); isProgram(path) {
			return path, nil
		}
	}
	return "", fmt.Errorf("%q: no such program in PATH (%s); install it, or give its path", name, search)
}

func isProgram(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.Mode().IsRegular() && info.Mode()&0o111 != 0
}

// valueOf is the last value of a variable, which is the one that counts.
func valueOf(env []string, key string) (value string) {
	for _, kv := range env {
		if v, ok := strings.CutPrefix(kv, key+"="); ok {
			value = v
		}
	}
	return value
}
