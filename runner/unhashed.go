package runner

import (
	"errors"
	"io"
	"os"
	"path/filepath"

	"github.com/waza-isolate/waza/evidence/redact"
)

// LeaveOut drops the digests of input files in which a secret stands: whoever knows the
// rest of such a file could tell by it whether a guess is right. The eval is at path.
// What has no digest is not compared when the run is resumed.
func (r *Record) LeaveOut(path string, secrets *redact.Set) error {
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

func holdsSecret(name string, secrets *redact.Set) (bool, error) {
	file, err := os.Open(name)
	if err != nil {
		return false, err
	}
	defer func() { _ = file.Close() }()
	out := redact.NewWriter(secrets, nothing{})
	if _, err := io.Copy(out, file); err != nil {
		return false, err
	}
	err = out.Close()
	return out.Found().Spans > 0, err
}

// nothing takes bytes and keeps none.
type nothing struct{}

func (nothing) Write(p []byte) (int, error) { return len(p), nil }
func (nothing) Close() error                { return nil }
