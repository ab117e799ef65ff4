package main

import (
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/urfave/cli/v2"

	"github.com/waza-isolate/waza/internal/strictyaml"
	"github.com/waza-isolate/waza/mcpconfig"
)

func mcpFlag() cli.Flag {
	return &cli.StringSliceFlag{Name: "mcp", Usage: "lay the MCP servers of a client's `FILE`, such as mcp.json, over the eval's"}
}

// readOverlay reads the file of --mcp and says what of it was left out. It is nil
// without the flag.
func (s *state) readOverlay(c *cli.Context) (*mcpconfig.ClientFile, error) {
	files := c.StringSlice("mcp")
	switch {
	case len(files) == 0:
		return nil, nil
	case len(files) > 1:
		return nil, usage("--mcp takes one file and is here %d times; put the servers into one", len(files))
	}
	data, err := readBounded(files[0])
	if err != nil {
		return nil, usage("--mcp: %w", err)
	}
	overlay, err := mcpconfig.ReadClient(files[0], data)
	if err != nil {
		return nil, &exitError{exitUsage, err}
	}
	for _, n := range overlay.Notes {
		fmt.Fprintf(s.stderr, "%s:%d:%d: note: %s\n", overlay.Name, n.Position.Line, n.Position.Column, n.Text)
	}
	return overlay, nil
}

// readBounded reads a file and not more of it than shows that it is too large.
func readBounded(path string) ([]byte, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, fmt.Errorf("%s is not a file", path)
	}
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	data, err := io.ReadAll(io.LimitReader(file, strictyaml.MaxBytes+1))
	return data, errors.Join(err, file.Close())
}
