// Package docs_test holds the documentation to the code: what it shows is read, what it
// links to is there.
package docs_test

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/waza-isolate/waza/eval"
	"github.com/waza-isolate/waza/internal/dockertest"
	"github.com/waza-isolate/waza/internal/golden"
	"github.com/waza-isolate/waza/mcpconfig"
)

const root = ".."

func documents(t *testing.T) []string {
	t.Helper()
	var all []string
	for _, glob := range []string{"*.md", "docs/*.md", "docs/howto/*.md"} {
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
		if isClientFile(match[1]) {
			continue
		}
		if match[1] == "eval.yaml" || len(all) == 0 {
			all = append(all, example{})
		}
		all[len(all)-1][match[1]] = match[2]
	}
	return all
}

func isClientFile(name string) bool { return strings.HasSuffix(name, ".json") }

var evalName = regexp.MustCompile(`(?m)^name: *([\w-]+)`)

// namedExamples returns the examples of all documents that have an eval, by the names of document and eval. One that
// shows no task file gets a plain task.
func namedExamples(t *testing.T) map[string]example {
	t.Helper()
	all := map[string]example{}
	for _, document := range documents(t) {
		for _, files := range examples(read(t, document)) {
			if files["eval.yaml"] == "" { // of a page that has its eval made
				continue
			}
			if len(files) == 1 {
				files["task.yaml"] = "id: plain\ninputs: {prompt: p}\n"
			}
			base := strings.TrimSuffix(filepath.Base(document), ".md") + "-" + evalName.FindStringSubmatch(files["eval.yaml"])[1]
			name := base
			for n := 2; all[name] != nil; n++ {
				name = fmt.Sprintf("%s-%d", base, n)
			}
			all[name] = files
		}
	}
	if len(all) == 0 {
		t.Error("no example was found")
	}
	return all
}

// TestExamplesAreRead holds the plan of every example, as a dry run prints it.
func TestExamplesAreRead(t *testing.T) {
	waza := dockertest.Waza(t)
	for name, files := range namedExamples(t) {
		cmd := exec.CommandContext(t.Context(), waza, "run", "--isolate", "--dry-run", "eval.yaml")
		cmd.Dir, cmd.Env = unpack(t, files), append(os.Environ(), "EVERYTHING_TOKEN=t", "REGION=r")
		plan, err := cmd.CombinedOutput()
		if err != nil {
			t.Errorf("%s: %v\n%s", name, err, plan)
		}
		golden.Check(t, filepath.Join("testdata", "plans", name+".txt"), string(plan))
	}
}

// TestClientFilesAreRead reads every file of a client as --mcp would.
func TestClientFilesAreRead(t *testing.T) {
	count := 0
	for _, document := range documents(t) {
		for _, match := range block.FindAllStringSubmatch(read(t, document), -1) {
			if !isClientFile(match[1]) {
				continue
			}
			count++
			if _, err := mcpconfig.ReadClient(match[1], []byte(match[2])); err != nil {
				t.Errorf("%s: %v", document, err)
			}
		}
	}
	if count == 0 {
		t.Error("no client's file was found")
	}
}

// fragment is a block that shows servers and nothing around them.
var fragment = regexp.MustCompile("(?ms)^```yaml\n(mcp_servers:\n.*?)^```$")

// TestServersAreRead loads the servers that the page on them shows, as those of an
// eval.
func TestServersAreRead(t *testing.T) {
	const document = "mcp-servers.md"
	found := fragment.FindAllStringSubmatch(read(t, document), -1)
	if len(found) == 0 {
		t.Error("no servers were found")
	}
	for _, match := range found {
		e := filepath.Join(unpack(t, example{
			"eval.yaml": "name: n\ntasks: [task.yaml]\nconfig:\n  trials_per_task: 1\n  timeout_seconds: 1\n  executor: mock\n" +
				"  isolation: {server_image: i}\n" + strings.TrimSuffix(strings.ReplaceAll("  "+match[1], "\n", "\n  "), "  "),
			"task.yaml":    "id: plain\ninputs: {prompt: p}\n",
			"notes.txt":    "",
			"notes/go.mod": "", "stock/docker/Dockerfile": "",
		}), "eval.yaml")
		if _, _, err := eval.Load(e, eval.Options{}); err != nil {
			t.Errorf("%s: %v\n%s", document, err, match[1])
		}
	}
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

var (
	link    = regexp.MustCompile(`\]\(([^)#:\s]*)(?:#([^)\s]*))?\)`)
	heading = regexp.MustCompile(`(?m)^#+ (.*)$`)
	noSlug  = regexp.MustCompile(`[^\w -]`)
)

// anchors are what links into a document can name, as GitHub makes them of headings.
func anchors(text string) []string {
	var all []string
	for _, match := range heading.FindAllStringSubmatch(text, -1) {
		all = append(all, strings.ReplaceAll(noSlug.ReplaceAllString(strings.ToLower(match[1]), ""), " ", "-"))
	}
	return all
}

func TestLinksLeadSomewhere(t *testing.T) {
	for _, document := range documents(t) {
		for _, match := range link.FindAllStringSubmatch(fenced.ReplaceAllString(read(t, document), ""), -1) {
			target := document
			if match[1] != "" {
				target = filepath.Join(filepath.Dir(document), match[1])
			}
			if _, err := os.Stat(target); err != nil {
				t.Errorf("%s: %v", document, err)
			} else if match[2] != "" && !slices.Contains(anchors(read(t, target)), match[2]) {
				t.Errorf("%s: %s has no heading %s", document, target, match[2])
			}
		}
	}
}

var (
	fenced = regexp.MustCompile("(?ms)^```.*?^```$")
	goFile = regexp.MustCompile(`(?m)[\w/.-]+\.go(?:$|\.\W|[^\w.])`)
	goTest = regexp.MustCompile(`\b(?:Test|Fuzz)[A-Z]\w+`)
)

// generated is what a document's part begins with that is made of the code.
const generated = "<!-- The rest is written by "

// TestDocumentsNameNoCode checks that documents speak of packages, promises and commands:
// files and tests are renamed without them. A reader's own files stand in blocks.
func TestDocumentsNameNoCode(t *testing.T) {
	for _, document := range documents(t) {
		text, _, _ := strings.Cut(read(t, document), generated)
		named := append(goFile.FindAllString(fenced.ReplaceAllString(text, ""), -1), goTest.FindAllString(text, -1)...)
		if len(named) > 0 {
			t.Errorf("%s names %q: name the package, or what is promised", document, named)
		}
	}
}
