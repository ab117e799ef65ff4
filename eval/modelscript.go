package eval

import (
	"path/filepath"

	"github.com/waza-isolate/waza/internal/strictyaml"
	"github.com/waza-isolate/waza/internal/wholefile"
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
	data, err := wholefile.Read(path, strictyaml.MaxBytes)
	if err != nil {
		return nil, unreadable(path, err)
	}
	return data, nil
}
