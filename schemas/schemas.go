// Package schemas holds the JSON Schemas of waza's files, for editors and other tools. They
// are generated from the Go types of the files, and a test fails if they differ.
//
// waza itself does not use them: package eval is stricter and reports the position of
// mistakes.
package schemas

import _ "embed"

//go:generate go test . -run ^Test(Generated|Reference)$ -update

//go:embed eval.schema.json
var eval []byte

//go:embed task.schema.json
var task []byte

//go:embed results.schema.json
var results []byte

//go:embed side.schema.json
var side []byte

// Eval returns the JSON Schema (draft 7) of an eval file.
func Eval() []byte { return append([]byte(nil), eval...) }

// Task returns the JSON Schema (draft 7) of a task file.
func Task() []byte { return append([]byte(nil), task...) }

// Results returns the JSON Schema (draft 7) of results.json.
func Results() []byte { return append([]byte(nil), results...) }

// Side returns the JSON Schema (draft 7) of a side of a cassette.
func Side() []byte { return append([]byte(nil), side...) }
