// Package docs_test holds the documentation to the code: what it shows is read,
// what it names is there.
package docs_test

import (
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/waza-isolate/waza/agents/script"
	"github.com/waza-isolate/waza/runner/spec"
	"github.com/waza-isolate/waza/schemas"
)

const root = ".."

func documents(t *testing.T) []string {
	t.Helper()
	var all []string
	for _, glob := range []string{"*.md", "docs/*.md"} {
		found, err := filepath.Glob(filepath.Join(root, glob))
		if err != nil || len(found) == 0 {
			t.Fatalf("%s: %d documents, %v", glob, len(found), err)
		}
		all = append(all, found...)
	}
	return all
}

func read(t *testing.T, path string) string {
	t.Helper()
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(content)
}

// block is a fenced block with a file's name behind its language.
var block = regexp.MustCompile("(?ms)^```[a-z]+ (\\S+)\n(.*?)^```$")

// example is the files of one eval: a block eval.yaml and the named ones up to
// the next.
type example map[string]string

func examples(text string) []example {
	var all []example
	for _, match := range block.FindAllStringSubmatch(text, -1) {
		if match[1] == "eval.yaml" || len(all) == 0 {
			all = append(all, example{})
		}
		all[len(all)-1][match[1]] = match[2]
	}
	return all
}

// TestExamplesAreRead loads every example as waza run would. One that shows no
// task file gets a plain task.
func TestExamplesAreRead(t *testing.T) {
	count := 0
	for _, document := range documents(t) {
		for _, files := range examples(read(t, document)) {
			count++
			if len(files) == 1 {
				files["task.yaml"] = "id: plain\ninputs: {prompt: p}\n"
			}
			eval := filepath.Join(unpack(t, files), "eval.yaml")
			if _, _, err := spec.Load(eval, spec.Options{CheckScript: checkScript}); err != nil {
				t.Errorf("%s: %v", document, err)
			}
		}
	}
	if count == 0 {
		t.Error("no example was found")
	}
}

func checkScript(steps json.RawMessage) error {
	_, err := script.Parse(steps)
	return err
}

func unpack(t *testing.T, files example) string {
	t.Helper()
	dir := t.TempDir()
	for name, content := range files {
		path := filepath.Join(dir, name)
		err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(content), 0o644))
		if err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// TestEveryKeyIsDocumented looks for the keys of the schemas in eval-yaml.md.
func TestEveryKeyIsDocumented(t *testing.T) {
	reference := read(t, "eval-yaml.md")
	for _, schema := range [][]byte{schemas.Eval(), schemas.Task()} {
		var document any
		if err := json.Unmarshal(schema, &document); err != nil {
			t.Fatal(err)
		}
		for _, key := range properties(document) {
			if !regexp.MustCompile("`([a-z_]+\\.)*" + key + "`").MatchString(reference) {
				t.Errorf("eval-yaml.md does not document %s", key)
			}
		}
	}
}

// properties lists the names of all properties in a schema, however deep.
func properties(schema any) []string {
	var names []string
	switch schema := schema.(type) {
	case []any:
		for _, item := range schema {
			names = append(names, properties(item)...)
		}
	case map[string]any:
		for key, value := range schema {
			names = append(names, properties(value)...)
			if named, ok := value.(map[string]any); ok && key == "properties" {
				for name := range named {
					names = append(names, name)
				}
			}
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

var link = regexp.MustCompile(`\]\(([^)#:\s]+)(?:#[^)\s]*)?\)`)

func TestLinksLeadSomewhere(t *testing.T) {
	for _, document := range documents(t) {
		for _, match := range link.FindAllStringSubmatch(read(t, document), -1) {
			if _, err := os.Stat(filepath.Join(filepath.Dir(document), match[1])); err != nil {
				t.Errorf("%s: %v", document, err)
			}
		}
	}
}

var testName = regexp.MustCompile(`\b(?:Test|Fuzz)[A-Z]\w+`)

// TestNamedTestsExist holds that a promise names a test that there is.
func TestNamedTestsExist(t *testing.T) {
	declared := sources(t)
	for _, document := range documents(t) {
		for _, name := range testName.FindAllString(read(t, document), -1) {
			if !strings.Contains(declared, "\nfunc "+name+"(") {
				t.Errorf("%s names %s, which does not exist", document, name)
			}
		}
	}
}

// sources is every test file of the module.
func sources(t *testing.T) string {
	t.Helper()
	var all strings.Builder
	err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || !strings.HasSuffix(path, "_test.go") {
			return err
		}
		content, err := os.ReadFile(path)
		all.Write(content)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return all.String()
}
