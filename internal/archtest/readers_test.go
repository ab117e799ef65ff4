package archtest

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// envelopeReaders are the files that may look for a key of a JSON-RPC message by its name,
// with the reason. All others ask mcp/jsonrpc, so that no two disagree on what a message says.
var envelopeReaders = map[string]string{
	"mcp/jsonrpc/jsonrpc.go":  "it is the reader",
	"mcp/proxy/tools.go":      "looks for every key that some server may take for the method of a call that is hidden",
	"evidence/redact/json.go": "leaves methods alone, in the copy that is written",
	"evidence/models.go":      "the method is that of a request over HTTP",
}

// notOurs are directories of peers that tests and measurements talk to.
var notOurs = []string{"attacks", "bench", "conformance", "examples", "testdata", ".git"}

// TestOneEnvelopeReader looks for struct tags, cases and lookups that name a key which only
// JSON-RPC messages have.
func TestOneEnvelopeReader(t *testing.T) {
	found := map[string]bool{}
	root := filepath.Join("..", "..")
	err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if entry.IsDir() && slices.Contains(notOurs, entry.Name()) {
			return filepath.SkipDir
		}
		if !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return nil
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		name, _ := filepath.Rel(root, path) // below it
		ast.Inspect(file, func(n ast.Node) bool {
			if readsEnvelope(n) {
				found[filepath.ToSlash(name)] = true
			}
			return true
		})
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for name := range found {
		if envelopeReaders[name] == "" {
			t.Errorf("%s reads JSON-RPC messages by itself; use mcp/jsonrpc", name)
		}
	}
	for name := range envelopeReaders {
		if !found[name] {
			t.Errorf("%s reads no JSON-RPC messages and may leave the list", name)
		}
	}
}

func readsEnvelope(n ast.Node) bool {
	switch n := n.(type) {
	case *ast.Field:
		if n.Tag == nil {
			return false
		}
		tag, _ := strconv.Unquote(n.Tag.Value) // Go's parser has accepted it
		key, _, _ := strings.Cut(reflect.StructTag(tag).Get("json"), ",")
		return isEnvelopeKey(key)
	case *ast.CaseClause:
		return slices.ContainsFunc(n.List, namesEnvelopeKey)
	case *ast.CallExpr:
		called, ok := n.Fun.(*ast.SelectorExpr)
		return ok && called.Sel.Name == "Member" && slices.ContainsFunc(n.Args, namesEnvelopeKey)
	case *ast.BinaryExpr:
		return namesEnvelopeKey(n.Y)
	}
	return false
}

func namesEnvelopeKey(e ast.Expr) bool {
	literal, ok := e.(*ast.BasicLit)
	if !ok || literal.Kind != token.STRING {
		return false
	}
	key, _ := strconv.Unquote(literal.Value) // Go's parser has accepted it
	return isEnvelopeKey(key)
}

// isEnvelopeKey leaves out id, params, result and error, which other formats have too.
func isEnvelopeKey(key string) bool { return key == "jsonrpc" || key == "method" }
