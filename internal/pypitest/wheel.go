package pypitest

import (
	"archive/zip"
	"bytes"
	_ "embed"
	"fmt"
	"strings"
)

// Wheel is a pure Python package with one module.
type Wheel struct {
	Name, Version string // the name is lower case with hyphens
	Module        string // source of the module, which is named like the package
	Needs         []string
	Program       bool // whether main is installed as a program named like the package
}

func (w Wheel) module() string { return strings.ReplaceAll(w.Name, "-", "_") }

func (w Wheel) file() string {
	return fmt.Sprintf("%s-%s-py3-none-any.whl", w.module(), w.Version)
}

// Bytes returns the wheel (PEP 427). It is deterministic.
func (w Wheel) Bytes() []byte {
	info := fmt.Sprintf("%s-%s.dist-info/", w.module(), w.Version)
	metadata := fmt.Sprintf("Metadata-Version: 2.1\nName: %s\nVersion: %s\n", w.Name, w.Version)
	for _, need := range w.Needs {
		metadata += "Requires-Dist: " + need + "\n"
	}
	files := [][2]string{
		{w.module() + ".py", w.Module},
		{info + "METADATA", metadata},
		{info + "WHEEL", "Wheel-Version: 1.0\nGenerator: waza\nRoot-Is-Purelib: true\nTag: py3-none-any\n"},
	}
	if w.Program {
		files = append(files, [2]string{info + "entry_points.txt", fmt.Sprintf("[console_scripts]\n%s = %s:main\n", w.Name, w.module())})
	}
	record := info + "RECORD,,\n"
	for _, f := range files {
		record += f[0] + ",,\n"
	}
	var buf bytes.Buffer
	out := zip.NewWriter(&buf)
	for _, f := range append(files, [2]string{info + "RECORD", record}) {
		part, _ := out.Create(f[0]) // a Buffer never fails
		_, _ = part.Write([]byte(f[1]))
	}
	_ = out.Close()
	return buf.Bytes()
}

//go:embed server.py
var server string

// Server returns an MCP server on stdio and another wheel that it depends on. It has the
// tools greet, which returns mark, and dial, which tries to connect to an address and
// returns the result.
func Server(name, mark string) []Wheel {
	words := Wheel{Name: name + "-words", Version: "2.1", Module: fmt.Sprintf("MARK = %q\n", mark)}
	return []Wheel{
		{Name: name, Version: "1.0", Module: strings.ReplaceAll(server, "WORDS", words.module()), Needs: []string{words.Name + " >=2"}, Program: true},
		words,
	}
}
