package spec

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/waza-isolate/waza/internal/strictyaml"
)

// ModelScriptPath is where the script of a provider of e's is.
func ModelScriptPath(e *Eval, m Model) string {
	if filepath.IsAbs(m.Script) {
		return m.Script
	}
	return filepath.Join(e.Dir(), m.Script)
}

// ReadModelScript reads that script.
func ReadModelScript(e *Eval, m Model) ([]byte, error) {
	path := ModelScriptPath(e, m)
	file, err := os.Open(path)
	if err != nil {
		return nil, unreadable(path, err)
	}
	data, err := io.ReadAll(io.LimitReader(file, strictyaml.MaxBytes+1))
	if err := errors.Join(err, file.Close()); err != nil {
		return nil, unreadable(path, err)
	}
	if len(data) > strictyaml.MaxBytes {
		return nil, fmt.Errorf("%s has more than %d bytes", path, strictyaml.MaxBytes)
	}
	return data, nil
}
