package main

import (
	"errors"
	"fmt"

	"github.com/urfave/cli/v2"

	"github.com/waza-isolate/waza/internal/files"
	"github.com/waza-isolate/waza/internal/strictyaml"
	"github.com/waza-isolate/waza/internal/text"
	"github.com/waza-isolate/waza/mcpconfig"
)

func mcpFlag() cli.Flag {
	return &cli.GenericFlag{
		Name: "mcp", Value: &once{},
		Usage: "lay the MCP servers of a client's `FILE`, such as mcp.json, over the eval's",
	}
}

// once is the value of a flag that may be given once. The library takes the last
// of several and says nothing.
type once struct {
	value string
	set   bool
}

func (o *once) Set(value string) error {
	if o.set {
		return errors.New("the flag takes one file and is here twice; put the servers into one")
	}
	o.value, o.set = value, true
	return nil
}

func (o *once) String() string { return o.value }

// readOverlay reads the file of --mcp and says what of it was left out. It is nil
// without the flag.
func (s *state) readOverlay(c *cli.Context) (*mcpconfig.ClientFile, error) {
	if !c.IsSet("mcp") {
		return nil, nil
	}
	return s.overlayFrom(c.Generic("mcp").(*once).value)
}

func (s *state) overlayFrom(path string) (*mcpconfig.ClientFile, error) {
	data, err := files.ReadNamed(path, strictyaml.MaxBytes)
	if err != nil {
		return nil, usage("--mcp: %w", err)
	}
	overlay, err := mcpconfig.ReadClient(path, data)
	if err != nil {
		return nil, &exitError{exitUsage, err}
	}
	for _, n := range overlay.Notes {
		fmt.Fprintf(s.stderr, "%s:%d:%d: note: %s\n", text.Inert(overlay.Name), n.Position.Line, n.Position.Column, text.Inert(n.Text))
	}
	return overlay, nil
}

// warnOnce says what of files has no effect, each once however often they are read.
func (s *state) warnOnce(warnings []*strictyaml.Error) {
	for _, w := range warnings {
		line := fmt.Sprintf("%s:%d:%d: warning: %s", w.File, w.Position.Line, w.Position.Column, w.Message)
		if s.warned[line] {
			continue
		}
		s.warned[line] = true
		fmt.Fprintln(s.stderr, text.Inert(line))
	}
}

// warn says what failed and harms no trial.
func (s *state) warn(err error) { fmt.Fprintf(s.stderr, "warning: %s\n", text.Indented(err.Error())) }
