package runner

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"path/filepath"
	"slices"

	"github.com/waza-isolate/waza/eval"
	"github.com/waza-isolate/waza/evidence/secret"
	"github.com/waza-isolate/waza/internal/files"
	"github.com/waza-isolate/waza/runner/plan"
)

// inputsOf returns the SHA-256 of every file that an eval's trials are made from, except the
// eval file, by path relative to the eval's directory. Values of variables are not included.
func inputsOf(e *eval.Eval, tasks []eval.ResolvedTask, trials []*plan.Trial) (map[string]string, error) {
	paths := map[string]bool{}
	for _, task := range tasks {
		paths[task.Path] = true
	}
	for _, file := range slices.Concat(e.MockFiles, e.TextFiles) {
		paths[file] = true
	}
	for _, t := range trials {
		for _, file := range sourcesOf(t) {
			paths[file] = true
		}
	}
	inputs := make(map[string]string, len(paths))
	for file := range paths {
		name, err := fromDir(e.Dir(), file)
		if err != nil {
			return nil, err
		}
		if inputs[name], err = files.Digest(file); err != nil {
			return nil, err
		}
	}
	return inputs, nil
}

// sourcesOf returns the paths of the files that a trial's containers and models get.
func sourcesOf(t *plan.Trial) (paths []string) {
	for _, f := range t.GivenFiles() {
		if f.Source != nil {
			paths = append(paths, filepath.Join(f.Source.Dir, f.Source.Path))
		}
	}
	if t.Models != nil {
		for _, p := range t.Models.Providers {
			if p.Access.File != "" {
				paths = append(paths, p.Access.File)
			}
		}
	}
	return paths
}

// fromDir returns file relative to dir, with slashes.
func fromDir(dir, file string) (string, error) {
	dir, errDir := filepath.Abs(dir)
	file, errFile := filepath.Abs(file)
	if err := errors.Join(errDir, errFile); err != nil {
		return "", err
	}
	name, err := filepath.Rel(dir, file)
	return filepath.ToSlash(name), err
}

// CheckInputs returns an error if an input file has changed since the run started. The eval is
// at path.
func (r Record) CheckInputs(path string) error {
	check := func(file, name, want string) error {
		sum, err := files.Digest(file)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			return fmt.Errorf("%s, which the run started with, no longer exists", name)
		case err != nil:
			return err
		case want != "" && sum != want:
			return fmt.Errorf("%s has changed since the run started", name)
		}
		return nil
	}
	if err := check(path, path, r.Eval.SHA256); err != nil {
		return err
	}
	for _, name := range slices.Sorted(maps.Keys(r.Inputs)) {
		file := filepath.Join(filepath.Dir(path), filepath.FromSlash(name))
		if err := check(file, file, r.Inputs[name]); err != nil {
			return err
		}
	}
	return nil
}

// planDigest returns a digest of the trials' plans as written to trial.json, without secrets.
func planDigest(trials []*plan.Trial, secrets *secret.Set) string {
	sum := sha256.New()
	for _, t := range trials {
		plan, _ := secrets.JSON(t.JSON())
		_, _ = sum.Write(append(plan, '\n'))
	}
	return hex.EncodeToString(sum.Sum(nil))
}

// DropSecretDigests removes the digests of input files that contain a secret, since they could
// be used to verify a guess. The eval is at path. Files without a digest are not compared when
// the run is resumed.
func (r *Record) DropSecretDigests(path string, secrets *secret.Set) error {
	drop := func(file string, digest *string) error {
		holds, err := holdsSecret(file, secrets)
		if holds {
			*digest = ""
		}
		return err
	}
	errs := []error{drop(path, &r.Eval.SHA256)}
	if r.MCP != nil {
		errs = append(errs, drop(r.MCP.Path, &r.MCP.SHA256))
	}
	for name, digest := range r.Inputs {
		errs = append(errs, drop(filepath.Join(filepath.Dir(path), filepath.FromSlash(name)), &digest))
		r.Inputs[name] = digest
	}
	return errors.Join(errs...)
}

func holdsSecret(name string, secrets *secret.Set) (bool, error) {
	file, err := files.Open(name)
	if err != nil {
		return false, err
	}
	defer func() { _ = file.Close() }()
	out := secret.NewWriter(secrets, io.Discard)
	if _, err := files.Copy(out, file); err != nil {
		return false, err
	}
	err = out.Close()
	return out.Found().Spans > 0, err
}
