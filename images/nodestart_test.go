package images_test

import (
	"strings"
	"testing"
	"testing/fstest"

	"github.com/waza-isolate/waza/images"
)

func TestCheckStart(t *testing.T) {
	t.Parallel()
	for manifest, want := range map[string]string{
		`{"workspaces": ["packages/*"]}`:                                         "whose packages are packages/a, packages/b; name the one that is the server, as in waza init packages/a",
		`{"workspaces": {"packages": ["packages/b", "nowhere/*", "[", "../x"]}}`: "whose packages are packages/b;",
		`{"main": "dist/index.js"}`:                                              "starts dist/index.js, which is not there, and has no script build",
		`{"bin": {"a": "dist/cli.js"}}`:                                          "starts dist/cli.js, which is not there",
		`{"scripts": {"start": "node --flag dist/index.mjs"}}`:                   "starts dist/index.mjs, which is not there",
		`{}`:                            "starts no program; give it bin",
		`{"main": "./packages/a/x.js"}`: "",
		`{"main": "dist/index.js", "scripts": {"build": "tsc"}}`: "",
		`{"scripts": {"start": "tsx index.ts"}}`:                 "",
		`{`:                                                      "",
	} {
		dir := fstest.MapFS{"package.json": {Data: []byte(manifest)}, "packages/a/package.json": {}, "packages/b/package.json": {}, "packages/a/x.js": {}}
		err := images.CheckStart(dir)
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v; want %q", manifest, err, want)
		}
	}
	for manifest, refused := range map[string]bool{
		`{"scripts": {"build": "rm -rf dist && tsc"}}`: true, `{"scripts": {"build": "tsc"}, "devDependencies": {"typescript": "5"}}`: false, `{"scripts": {"build": "tsup"}}`: false, `{`: false,
	} {
		if err := images.CheckBuild(fstest.MapFS{"package.json": {Data: []byte(manifest)}}); (err != nil) != refused {
			t.Errorf("%s: %v", manifest, err)
		}
	}
	if err := images.CheckStart(fstest.MapFS{"package.json": {Data: []byte(`{}`)}, "server.js": {}}); err != nil {
		t.Error(err)
	}
}
