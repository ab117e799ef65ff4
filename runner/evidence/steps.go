package evidence

import (
	"errors"
	"os"
)

// Steps reads steps.jsonl; a trial that took none has no such file.
func (d Dir) Steps() ([]Step, error) {
	steps, err := collect(readLines[Step](d, StepsFile))
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	return steps, err
}
