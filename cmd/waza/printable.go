package main

import (
	"errors"
	"io"

	"github.com/waza-isolate/waza/internal/text"
)

// printJSON prints JSON that write writes.
func (s *state) printJSON(write func(io.Writer) error) error {
	out := text.InertJSON(s.stdout)
	return errors.Join(write(out), out.Close())
}
