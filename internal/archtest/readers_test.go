package archtest

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// format is what only one package reads and writes.
type format struct {
	uses func(ast.Node) bool
	may  map[string]string
	in   []string // packages, with those below them; all where empty
}

func (f format) isIn(name string) bool {
	return len(f.in) == 0 || slices.ContainsFunc(f.in, func(dir string) bool { return strings.HasPrefix(name, dir+"/") })
}

// formats are what only one package reads and writes, so that no two disagree on what is
// written: what shows that a file does, and the files that may, with the reason.
var formats = map[string]format{
	"JSON-RPC messages": {uses: readsEnvelope, may: map[string]string{
		"mcp/jsonrpc/jsonrpc.go":  "it is the reader",
		"mcp/proxy/tools.go":      "looks for every key that some server may take for the method of a call that is hidden",
		"evidence/secret/json.go": "leaves methods alone, in the copy that is written",
		"evidence/models.go":      "the method is that of a request over HTTP",
	}},
	"keys whose case counts": {
		uses: foldsKeys,
		in:   []string{"agents/llm", "agents/transcript", "evidence/capture", "mcp", "model"},
	},
	"JSON token by token": {uses: scansJSON, may: map[string]string{
		"internal/jsontext/walk.go":     "it walks valid JSON",
		"internal/jsontext/layout.go":   "it lays valid JSON out",
		"evidence/secret/json.go":       "copies all that stands between strings as it is",
		"internal/strictyaml/json.go":   "makes nodes of a library's tokens",
		"cmd/waza/scaffold/fields.go":   "it tells the kinds of values of valid JSON apart",
		"cmd/waza/scaffold/tools.go":    "it tells the kinds of values of valid JSON apart",
		"internal/yamltext/yamltext.go": "it lays valid JSON out as YAML",
	}},
	"tar": {uses: readsTar, may: map[string]string{
		"internal/tree/read.go": "it is the reader",
	}},
	"files by their paths": {uses: writesFiles, in: []string{
		"agents", "cmd", "containers", "egress", "eval", "evidence", "grading", "images", "internal/liveview", "internal/proc",
		"internal/tree", "kubernetes", "mcp", "mcpconfig", "model", "report", "results", "runner", "sandbox", "schemas",
	}, may: map[string]string{
		"agents/adapter/lock/main.go":       "writes a file of this module, for its maintainers",
		"agents/agents.go":                  "the transcript is in the sandbox of the agent that runs there",
		"cmd/waza/github.go":                "GitHub's runner names the file in the environment",
		"containers/socket.go":              "a directory for temporary files, of this user alone",
		"grading/idle.go":                   "a directory for temporary files, of this user alone",
		"internal/tree/tree.go":             "unpacks into a root, and without a defence by paths",
		"runner/gitrepo/gitrepo.go":         "a directory for temporary files, of this user alone",
		"runner/shard.go":                   "merges into a directory that was just made without links",
		"sandbox/guest/exec_linux.go":       "process 1 in its container",
		"sandbox/guest/interfaces_linux.go": "process 1 in its container",
		"sandbox/local/directory.go":        "a directory for temporary files, of this user alone",
		"sandbox/probe/files_linux.go":      "attacks the container that it is in",
		"sandbox/probe/guest_linux.go":      "attacks the container that it is in",
		"sandbox/probe/kernel_linux.go":     "attacks the container that it is in",
		"sandbox/selftest/cache.go":         "the user's cache directory",
		"sandbox/selftest/own_unix.go":      "the user's cache directory",
	}},
	"figures of a run": {uses: readsFigures, in: []string{
		"internal/liveview", "report/export", "report/github", "report/inspection", "report/junit", "report/terminal",
	}, may: map[string]string{
		"report/export/csv.go": "its columns are keys of results.json",
	}},
	"event streams": {uses: writesEvents, may: map[string]string{
		"mcp/sse/sse.go":        "it is the reader and the writer",
		"agents/llm/toolbox.go": "data is the scheme of a URL",
	}},
}

// notOurs are directories of tests and of what they and measurements talk to.
var notOurs = []string{"test", "examples", "testdata", ".git"}

// ourFiles calls visit with every shipped file of Go, by its path in the module.
func ourFiles(t *testing.T, visit func(name string, file *ast.File)) {
	t.Helper()
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
		name, err := filepath.Rel(root, path)
		if err != nil {
			return err
		}
		visit(filepath.ToSlash(name), file)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

func TestOneReader(t *testing.T) {
	found := map[string]map[string]bool{}
	for format := range formats {
		found[format] = map[string]bool{}
	}
	ourFiles(t, func(name string, file *ast.File) {
		ast.Inspect(file, func(n ast.Node) bool {
			for format, rule := range formats {
				if rule.uses(n) && rule.isIn(name) {
					found[format][name] = true
				}
			}
			return true
		})
	})
	for format, rule := range formats {
		for name := range found[format] {
			if rule.may[name] == "" {
				t.Errorf("%s reads or writes %s by itself; use the package that does", name, format)
			}
		}
		for name := range rule.may {
			if !found[format][name] {
				t.Errorf("%s has nothing to do with %s and may leave the list", name, format)
			}
		}
	}
}

func readsTar(n ast.Node) bool { return isName(n, "tar", "NewReader") }

// writers are the functions of os that write below a path and follow links on the way.
var writers = []string{
	"Chmod", "Chown", "Chtimes", "CopyFS", "Create", "CreateTemp", "Link", "Mkdir", "MkdirAll", "MkdirTemp", "OpenFile", "Remove", "RemoveAll", "Rename",
	"Symlink", "Truncate", "WriteFile",
}

// writesFiles finds what writes, moves or removes files by their paths, through links. Package
// internal/files does so through none.
func writesFiles(n ast.Node) bool {
	return slices.ContainsFunc(writers, func(name string) bool { return isName(n, "os", name) })
}

// foldsKeys finds the readers of encoding/json, which take a key for another that differs in
// case; internal/jsontext does not.
func foldsKeys(n ast.Node) bool {
	return isName(n, "json", "Unmarshal") || isName(n, "json", "NewDecoder")
}

// scansJSON finds tokens of encoding/json, and cases of what JSON's values begin with.
func scansJSON(n ast.Node) bool {
	clause, ok := n.(*ast.CaseClause)
	return isName(n, "json", "Token") || isName(n, "json", "Delim") || ok && slices.ContainsFunc(clause.List, func(e ast.Expr) bool {
		literal, ok := e.(*ast.BasicLit)
		return ok && (literal.Value == "'{'" || literal.Value == "'['")
	})
}

// isName reports whether n is a name of a package.
func isName(n ast.Node, pkg, name string) bool {
	selected, ok := n.(*ast.SelectorExpr)
	if !ok || selected.Sel.Name != name {
		return false
	}
	of, ok := selected.X.(*ast.Ident)
	return ok && of.Name == pkg
}

// passedOn are what outputs may name of package results: what they pass to report/view, and what calls
// returned.
var passedOn = []string{
	"Results", "Measure", "Activity", "Comparison", "ComparedRun", "ComparedTask", "Pair", "Difference", "Unlike", "AttackSucceeded", "ResultOf", "CallText",
}

// readsFigures finds what reads the figures of a run or a task, and what else of package results is named:
// report/view words them, for all outputs alike.
func readsFigures(n ast.Node) bool {
	selected, ok := n.(*ast.SelectorExpr)
	if !ok {
		return false
	}
	name := selected.Sel.Name
	return slices.Contains([]string{"Summary", "Stats", "SessionDigest"}, name) || isName(n, "results", name) && !slices.Contains(passedOn, name)
}

// eventText is what a string has in it that is part of an event stream, or names its type.
var eventText = regexp.MustCompile(`^text/event-stream|(^|\n)data:( |$)`)

func writesEvents(n ast.Node) bool {
	literal, ok := n.(*ast.BasicLit)
	if !ok || literal.Kind != token.STRING {
		return false
	}
	text, _ := strconv.Unquote(literal.Value) // Go's parser has accepted it
	return eventText.MatchString(text)
}

// readsEnvelope looks for struct tags, cases and lookups that name a key which only JSON-RPC
// messages have.
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
