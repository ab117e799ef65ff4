// Package schemas holds the JSON Schemas of waza's files, for editors and other
// tools. They are generated from the Go types that the files are read into or written
// from, and a test fails when they differ.
//
// waza itself does not validate with them: package eval reads more strictly and
// says where a mistake is.
package schemas

import _ "embed"

//go:generate go test . -run TestGenerated -update

//go:embed eval.schema.json
var eval []byte

//go:embed task.schema.json
var task []byte

//go:embed results.schema.json
var results []byte

// Eval is the JSON Schema (2020-12) of an eval file.
func Eval() []byte { return append([]byte(nil), eval...) }

// Task is the JSON Schema (2020-12) of a task file.
func Task() []byte { return append([]byte(nil), task...) }

// Results is the JSON Schema (2020-12) of results.json.
func Results() []byte { return append([]byte(nil), results...) }
