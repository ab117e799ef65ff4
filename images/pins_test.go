package images_test

import (
	"bytes"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/waza-isolate/waza/images"
	"github.com/waza-isolate/waza/mcp/catalog"
)

var digest = strings.Repeat("0a", 32)

// What is pinned comes back from the file, and is not lost where packages change.
func TestPinned(t *testing.T) {
	pin := catalog.Pin{
		Server: catalog.Server{Name: "s", Version: "1", Protocol: "2025-11-25"}, Instructions: digest,
		Lists: map[catalog.Kind]map[string]string{catalog.Tools: {"add": digest}},
	}
	_, packages := resolved(t, npmManifest, "npx", "@a/tool")
	lock := packages.Pinned("files", pin)
	for name, one := range map[string]*images.Lock{"as made": lock, "without packages": lock.Only(nil), "with entries": lock.Fill(nil), "of nothing": (*images.Lock)(nil).Pinned("files", pin)} {
		again, err := images.ParseLock(one.Bytes())
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if diff := cmp.Diff(&pin, again.Pin("files")); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
		if again.Pin("other") != nil || again.Len() != one.Len() || !bytes.Equal(again.Bytes(), one.Bytes()) {
			t.Errorf("%s: %s", name, again.Bytes())
		}
	}
	if packages.Pin("files") != nil {
		t.Error("the lock that was added to has changed")
	}
}

func TestPinsAreChecked(t *testing.T) {
	tests := map[string]string{
		`{"a/b": {"lists": {}}}`:                                   `catalog of an invalid server`,
		`{"files": {"lists": {"tools": {"a": "12"}}}}`:             `"files": an entry of tools`,
		`{"files": {"lists": {"roots": {"a": "` + digest + `"}}}}`: `"roots" is not a kind of list`,
		`{"files": {"list": {}}}`:                                  `unknown field "list"`,
		`{"files": {"instructions": "yes", "lists": {}}}`:          `not a SHA-256 digest`,
		`{"files": {"lists": {"tools": {"": "` + digest + `"}}}}`:  `a name of at most`,
	}
	for catalogs, want := range tests {
		_, err := images.ParseLock([]byte(`{"version": 1, "packages": [], "catalogs": ` + catalogs + `}`))
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: %v", catalogs, err)
		}
	}
}
