package dockertest

import (
	"errors"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

const cgroupRoot = "/sys/fs/cgroup"

// Guests returns the process IDs in the engine's containers. It works even if the engine is
// not running.
func (p *Private) Guests() []string {
	p.t.Helper()
	dirs, err := p.cgroups()
	if err != nil {
		p.t.Fatal(err)
	}
	pids := map[string]bool{}
	for _, dir := range dirs {
		data, err := os.ReadFile(filepath.Join(dir, "cgroup.procs"))
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			p.t.Fatal(err)
		}
		for pid := range strings.FieldsSeq(string(data)) {
			pids[pid] = true
		}
	}
	return slices.Sorted(maps.Keys(pids))
}

// cgroups returns the directories of the engine's containers in every hierarchy, children
// before their parents.
func (p *Private) cgroups() ([]string, error) {
	tops, err := filepath.Glob(cgroupRoot + "/*" + p.parent) // version 1
	if err != nil {
		return nil, err
	}
	var dirs []string
	for _, top := range append(tops, cgroupRoot+p.parent) {
		err := filepath.WalkDir(top, func(path string, entry fs.DirEntry, err error) error {
			if err == nil && entry.IsDir() {
				dirs = append(dirs, path)
			}
			if errors.Is(err, fs.ErrNotExist) {
				return nil
			}
			return err
		})
		if err != nil {
			return nil, err
		}
	}
	slices.Reverse(dirs)
	return dirs, nil
}

func (p *Private) removeCgroups() error {
	dirs, err := p.cgroups()
	if err != nil {
		return err
	}
	var errs []error
	for _, dir := range dirs {
		if err := os.Remove(dir); !errors.Is(err, fs.ErrNotExist) {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}
