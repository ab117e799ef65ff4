package docs_test

import (
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/waza-isolate/waza/agents/adapter"
)

// TestEveryKeyOfAdaptersIsDocumented looks for the keys and their values in the reference.
func TestEveryKeyOfAdaptersIsDocumented(t *testing.T) {
	reference := read(t, "adapters.md")
	for _, of := range []reflect.Type{reflect.TypeFor[adapter.Adapter](), reflect.TypeFor[adapter.Model]()} {
		for _, field := range reflect.VisibleFields(of) {
			name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
			if name == "-" {
				continue
			}
			for _, word := range slices.Concat([]string{name}, strings.Fields(field.Tag.Get("enum"))) {
				if !strings.Contains(reference, "`"+word+"`") {
					t.Errorf("adapters.md lacks %s of %s", word, name)
				}
			}
		}
	}
}
