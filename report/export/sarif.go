package export

import (
	"io"

	"github.com/waza-isolate/waza/report/inspection"
)

func init() { add(Format{Name: "sarif", Whole: true, Write: SARIF}) }

// SARIF writes the findings about the servers of a run.
func SARIF(w io.Writer, run Run) error {
	document, err := inspection.SARIF(run.Run)
	if err == nil {
		_, err = w.Write(document)
	}
	return err
}
