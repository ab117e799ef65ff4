package docs_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/waza-isolate/waza/report/view"
	"github.com/waza-isolate/waza/serve"
)

// row is a row of a table of keys.
var row = regexp.MustCompile("(?m)^\\| `([a-z_0-9]+)` \\| (\\S.*) \\|$")

// TestServedKeysAreDocumented holds the page on waza serve to the types that it sends.
func TestServedKeysAreDocumented(t *testing.T) {
	sections := map[string]any{
		"A list of runs": serve.RunList{}, "A run in the list": view.ListedRun{}, "A run": serve.RunDetail{}, "A task of a run": serve.TaskDetail{},
		"A trial in a run": serve.TrialLine{}, "A trial": serve.TrialDetail{}, "A verdict": serve.VerdictLine{}, "A call": serve.CallLine{},
		"A captured text": serve.CapturedJSON{}, "A file": serve.FileLine{}, "Progress of a run": view.RunProgress{},
		"Progress of a trial": view.TrialProgress{}, "Progress of a call": view.CallProgress{}, "An error": serve.ErrorAnswer{},
	}
	text, said := read(t, filepath.Join(root, "docs", "serve.md")), commentsOf(t, filepath.Join(root, "serve"))
	maps.Copy(said, commentsOf(t, filepath.Join(root, "report", "view")))
	for title, v := range sections {
		_, section, found := strings.Cut(text, "\n### "+title+"\n")
		section, _, _ = strings.Cut(section, "\n### ")
		var reported []string
		for _, match := range row.FindAllStringSubmatch(section, -1) {
			reported = append(reported, match[1])
			if want := said[reflect.TypeOf(v).Name()][match[1]]; match[2] != want {
				t.Errorf("%s: of %s the page says %q, and the type %q", title, match[1], match[2], want)
			}
			if says, is := strings.Contains(match[2], "omitted"), mayLack(reflect.TypeOf(v), match[1]); says != is {
				t.Errorf("%s: %s may be omitted: %t, and the page says %t", title, match[1], is, says)
			}
		}
		if want := keysOf(reflect.TypeOf(v)); !found || !slices.Equal(reported, want) {
			t.Errorf("%s: the page has %q, and what is sent %q", title, reported, want)
		}
	}
	// What is sent in what is sent is documented too.
	known := map[reflect.Type]bool{}
	for _, v := range sections {
		known[reflect.TypeOf(v)] = true
	}
	for _, v := range sections {
		for _, field := range reflect.VisibleFields(reflect.TypeOf(v)) {
			if _, isSent := field.Tag.Lookup("json"); !isSent {
				continue
			}
			of := field.Type
			for of.Kind() == reflect.Pointer || of.Kind() == reflect.Slice {
				of = of.Elem()
			}
			if of.Kind() == reflect.Struct && slices.Contains([]string{reflect.TypeOf(serve.RunList{}).PkgPath(), reflect.TypeOf(view.ListedRun{}).PkgPath()}, of.PkgPath()) && !known[of] {
				t.Errorf("the page has no section on %s", of)
			}
		}
	}
}

// commentsOf is what is said of the fields of a package's types, by the types' names and
// the fields' keys.
func commentsOf(t *testing.T, dir string) map[string]map[string]string {
	t.Helper()
	all := map[string]map[string]string{}
	files, err := filepath.Glob(filepath.Join(dir, "*.go"))
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range files {
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.ParseComments)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(file, func(n ast.Node) bool {
			spec, isType := n.(*ast.TypeSpec)
			if !isType {
				return true
			}
			if fields, isStruct := spec.Type.(*ast.StructType); isStruct {
				all[spec.Name.Name] = map[string]string{}
				for _, field := range fields.Fields.List {
					if field.Tag != nil {
						tag := reflect.StructTag(strings.Trim(field.Tag.Value, "`"))
						key, _, _ := strings.Cut(tag.Get("json"), ",")
						all[spec.Name.Name][key] = strings.TrimSpace(field.Comment.Text())
					}
				}
			}
			return false
		})
	}
	return all
}

// mayLack reports whether a key of a type may be omitted.
func mayLack(of reflect.Type, key string) bool {
	for i := range of.NumField() {
		if name, options, _ := strings.Cut(of.Field(i).Tag.Get("json"), ","); name == key {
			return strings.HasPrefix(options, "omit")
		}
	}
	return false
}

// keysOf are the keys of a type's own fields.
func keysOf(of reflect.Type) (keys []string) {
	for i := range of.NumField() {
		field := of.Field(i)
		if name, _, _ := strings.Cut(field.Tag.Get("json"), ","); name != "" && name != "-" && !field.Anonymous {
			keys = append(keys, name)
		}
	}
	return keys
}
