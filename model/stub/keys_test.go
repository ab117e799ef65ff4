package stub

import (
	"os"
	"reflect"
	"strings"
	"testing"
)

// Every key of a script is in the page on them.
func TestEveryKeyIsDocumented(t *testing.T) {
	page, err := os.ReadFile("../../docs/model-stub.md")
	if err != nil {
		t.Fatal(err)
	}
	keys := keysOf(reflect.TypeFor[document]())
	if len(keys) < 20 {
		t.Errorf("only %q were found", keys)
	}
	for _, key := range keys {
		if !strings.Contains(string(page), "`"+key+"`") {
			t.Errorf("docs/model-stub.md does not document %s", key)
		}
	}
}

func keysOf(typ reflect.Type) []string {
	switch typ.Kind() {
	case reflect.Slice, reflect.Pointer:
		return keysOf(typ.Elem())
	case reflect.Struct:
	default:
		return nil
	}
	var keys []string
	for field := range typ.Fields() {
		key, _, _ := strings.Cut(field.Tag.Get("json"), ",")
		keys = append(append(keys, key), keysOf(field.Type)...)
	}
	return keys
}
