// Package frozen holds what waza does, as it is seen from outside, against files: what it
// says to mistakes, what it plans, and what it makes of recorded runs. Whoever changes a
// file here says why.
package frozen

import (
	"bytes"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/net/html"

	"github.com/waza-isolate/waza/internal/dockertest"
	"github.com/waza-isolate/waza/internal/golden"
)

// runs is where recorded runs are.
var runs = filepath.Join("testdata", "runs")

// TestRuns holds for every recorded run that grading it again changes no byte of any file,
// and what is printed and shown of it.
func TestRuns(t *testing.T) {
	waza := dockertest.Waza(t)
	recorded, err := os.ReadDir(runs)
	if err != nil || len(recorded) < 20 {
		t.Fatalf("%d recorded runs, %v", len(recorded), err)
	}
	for _, run := range recorded {
		t.Run(run.Name(), func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			if err := os.CopyFS(filepath.Join(dir, "run"), os.DirFS(filepath.Join(runs, run.Name()))); err != nil {
				t.Fatal(err)
			}
			check := func(name, got string) {
				golden.Check(t, filepath.Join("testdata", "said", run.Name(), name), got)
			}
			check("grade.txt", printed(t, waza, dir, "grade", "run"))
			check("show.txt", printed(t, waza, dir, "show", "run", "--full"))
			check("comment.md", printed(t, waza, dir, "report", "run", "--format", "github-comment"))
			for _, trial := range trials(t, filepath.Join(dir, "run")) {
				check("show-"+strings.ReplaceAll(trial, "/", "-")+".txt", printed(t, waza, dir, "show", "run", trial, "--full"))
			}
			printed(t, waza, dir, "report", "run")
			page, err := os.ReadFile(filepath.Join(dir, "run", "report.html"))
			if err != nil {
				t.Fatal(err)
			}
			check("report.txt", outline(t, page))
			same(t, filepath.Join(runs, run.Name()), filepath.Join(dir, "run"))
		})
	}
}

// TestComparisons checks what is told of two runs side by side.
func TestComparisons(t *testing.T) {
	waza := dockertest.Waza(t)
	for _, pair := range [][2]string{
		{"inventory-local", "inventory"}, {"injection-careful", "injection-gullible"}, {"injection-none", "injection-gullible"},
		{"interrupted", "resumed"}, {"turns", "turns-other-model"}, {"skills-none", "skills"},
	} {
		name := filepath.Join("testdata", "said", pair[0]+"-"+pair[1])
		golden.Check(t, name+".txt", printed(t, waza, runs, "compare", pair[0], pair[1]))
		golden.Check(t, name+".md", printed(t, waza, runs, "compare", "--format", "github-comment", pair[0], pair[1]))
		golden.Check(t, name+".json", printed(t, waza, runs, "compare", "--format", "json", pair[0], pair[1]))
	}
}

// trials are the trials of a run, as waza show names them.
func trials(t *testing.T, run string) []string {
	t.Helper()
	found, err := filepath.Glob(filepath.Join(run, "trials", "*", "*", "verdicts.json"))
	if err != nil {
		t.Fatal(err)
	}
	for i, file := range found {
		found[i] = strings.TrimPrefix(filepath.Dir(file), filepath.Join(run, "trials")+"/")
	}
	return found
}

// same holds that a run has the files that were recorded, and the page. With -update they
// are recorded as they are now.
func same(t *testing.T, recorded, now string) {
	t.Helper()
	was, is := files(t, recorded), files(t, now)
	delete(is, "report.html")
	if *golden.Update {
		for name, content := range is {
			golden.Check(t, filepath.Join(recorded, name), content)
		}
		return
	}
	if diff := cmp.Diff(was, is); diff != "" {
		t.Errorf("graded again (-recorded +now):\n%s", diff)
	}
}

// digests of files are in run.json, that of the page too, which is not recorded.
var pageDigest = regexp.MustCompile(`(?m)^ *"report\.html": "[0-9a-f]*",?\n`)

// files are those below a directory.
func files(t *testing.T, dir string) map[string]string {
	t.Helper()
	all := map[string]string{}
	err := filepath.WalkDir(dir, func(path string, entry os.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		data, err := os.ReadFile(path)
		name, _ := filepath.Rel(dir, path)
		all[name] = pageDigest.ReplaceAllString(string(data), "")
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// laterElements matches the bounds of what a browser makes elements of when it is near.
var laterElements = regexp.MustCompile(`</?noscript>`)

// outline is a page's structure and texts: a line for each element that has a text of its
// own, with the classes above it. Programs and styles are left out.
func outline(t *testing.T, page []byte) string {
	t.Helper()
	var out strings.Builder
	tokens := html.NewTokenizer(bytes.NewReader(laterElements.ReplaceAll(page, nil)))
	var path []string
	hidden := ""
	for {
		switch kind := tokens.Next(); kind {
		case html.ErrorToken:
			if tokens.Err() != io.EOF {
				t.Fatal(tokens.Err())
			}
			return out.String()
		case html.StartTagToken:
			token := tokens.Token()
			name := token.Data
			if hidden == "" && (name == "script" || name == "style" || name == "svg") {
				hidden = name
			}
			for _, a := range token.Attr {
				if a.Key == "class" {
					name += "." + strings.Join(strings.Fields(a.Val), ".")
				}
			}
			if !void[token.Data] {
				path = append(path, name)
			}
		case html.EndTagToken:
			name, _ := tokens.TagName()
			if string(name) == hidden {
				hidden = ""
			}
			for i := len(path) - 1; i >= 0; i-- {
				if tag, _, _ := strings.Cut(path[i], "."); tag == string(name) {
					path = path[:i]
					break
				}
			}
		case html.TextToken:
			if text := strings.Join(strings.Fields(tokens.Token().Data), " "); text != "" && hidden == "" {
				out.WriteString(strings.Join(path[max(0, len(path)-2):], " ") + ": " + text + "\n")
			}
		}
	}
}

// void are elements without an end.
var void = map[string]bool{"br": true, "col": true, "hr": true, "img": true, "input": true, "link": true, "meta": true, "wbr": true}
