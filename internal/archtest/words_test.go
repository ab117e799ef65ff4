package archtest

import (
	"go/ast"
	"go/token"
	"slices"
	"strings"
	"testing"
	"unicode"
)

// denied maps words that the code does not use for its own concepts to the usual terms.
var denied = map[string]string{
	"adviser":    "hints",
	"attendance": "process",
	"bookcase":   "cache",
	"box":        "container",
	"comeback":   "reconnect",
	"deed":       "activity",
	"dialogue":   "session",
	"fate":       "outcome",
	"inquest":    "probe",
	"interview":  "client session",
	"keeper":     "retained process",
	"leash":      "limited reader",
	"lookout":    "canary scanner",
	"outpost":    "host probe",
	"overseer":   "watcher",
	"owed":       "pending",
	"passage":    "proxied request",
	"scout":      "host probe",
	"shelf":      "index",
	"sighted":    "match",
	"survey":     "probe",
	"told":       "reported, or output",
	"vigil":      "watcher",
}

// TestWords refuses denied words in the names that our files declare.
func TestWords(t *testing.T) {
	ourFiles(t, func(file string, content *ast.File) {
		ast.Inspect(content, func(n ast.Node) bool {
			var names []*ast.Ident
			switch d := n.(type) {
			case *ast.FuncDecl:
				names = []*ast.Ident{d.Name}
			case *ast.TypeSpec:
				names = []*ast.Ident{d.Name}
			case *ast.ValueSpec:
				names = d.Names
			case *ast.Field:
				names = d.Names
			case *ast.AssignStmt:
				if d.Tok == token.DEFINE {
					for _, left := range d.Lhs {
						if name, ok := left.(*ast.Ident); ok {
							names = append(names, name)
						}
					}
				}
			}
			for _, name := range names {
				for _, word := range words(name.Name) {
					if instead := denied[word]; instead != "" {
						t.Errorf("%s: the name %s: not %s, but %s", file, name.Name, word, instead)
					}
				}
			}
			return true
		})
	})
}

// words returns the words that a name in camel case is made of, in lower case.
func words(name string) []string {
	var parts []string
	start := 0
	runes := []rune(name)
	for i := 1; i <= len(runes); i++ {
		if i == len(runes) || unicode.IsUpper(runes[i]) && !unicode.IsUpper(runes[i-1]) {
			parts = append(parts, strings.ToLower(string(runes[start:i])))
			start = i
		}
	}
	return slices.DeleteFunc(parts, func(s string) bool { return s == "" })
}
