package docs_test

import (
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/waza-isolate/waza/serve"
)

// row is a row of a table of keys.
var row = regexp.MustCompile("(?m)^\\| `([a-z_0-9]+)` \\| \\S")

// TestServedKeysAreDocumented holds the page on waza serve to the types that it sends.
func TestServedKeysAreDocumented(t *testing.T) {
	sections := map[string]any{
		"A list of runs": serve.RunList{}, "A run in the list": serve.Run{}, "A run": serve.RunDetail{}, "A task of a run": serve.TaskDetail{},
		"A trial in a run": serve.TrialLine{}, "A trial": serve.TrialDetail{}, "A verdict": serve.VerdictLine{}, "A call": serve.CallLine{},
		"A captured text": serve.CapturedJSON{}, "A file": serve.FileLine{}, "Progress of a run": serve.RunProgress{},
		"Progress of a trial": serve.TrialProgress{}, "Progress of a call": serve.CallProgress{}, "An error": serve.ErrorAnswer{},
	}
	text := read(t, filepath.Join(root, "docs", "serve.md"))
	for title, v := range sections {
		_, section, found := strings.Cut(text, "\n### "+title+"\n")
		section, _, _ = strings.Cut(section, "\n### ")
		var told []string
		for _, match := range row.FindAllStringSubmatch(section, -1) {
			told = append(told, match[1])
		}
		if want := keysOf(reflect.TypeOf(v)); !found || !slices.Equal(told, want) {
			t.Errorf("%s: the page has %q, and what is sent %q", title, told, want)
		}
	}
	// What is sent in what is sent is documented too.
	known := map[reflect.Type]bool{}
	for _, v := range sections {
		known[reflect.TypeOf(v)] = true
	}
	for _, v := range sections {
		for _, field := range reflect.VisibleFields(reflect.TypeOf(v)) {
			of := field.Type
			for of.Kind() == reflect.Pointer || of.Kind() == reflect.Slice {
				of = of.Elem()
			}
			if of.Kind() == reflect.Struct && of.PkgPath() == reflect.TypeOf(serve.Run{}).PkgPath() && !known[of] && field.IsExported() {
				t.Errorf("the page has no section on %s", of)
			}
		}
	}
}

// keysOf are the keys of a type's own fields.
func keysOf(of reflect.Type) (keys []string) {
	for i := range of.NumField() {
		field := of.Field(i)
		if name, _, _ := strings.Cut(field.Tag.Get("json"), ","); name != "" && !field.Anonymous {
			keys = append(keys, name)
		}
	}
	return keys
}
