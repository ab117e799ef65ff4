package docs_test

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"

	"github.com/waza-isolate/waza/internal/dockertest"
	"github.com/waza-isolate/waza/internal/golden"
)

// page is a document whose console blocks are run, one after another in one directory, into
// which the blocks with a file's name are written as they come.
type page struct {
	path    string
	runs    map[string]string // recorded runs of frozen, by the directory that the page has for them
	example string            // whose files its directory has
	engine  bool              // whether it needs the Docker engine
}

// pages returns those documents: the ones that people work through.
func pages(t *testing.T) []page {
	t.Helper()
	all := []page{
		{path: "tutorial.md", engine: true},
		{path: "troubleshooting.md"},
		{path: "cassettes.md", example: "llm"},
	}
	known := map[string]page{
		"howto/ci-without-keys.md":  {engine: true},
		"howto/debug-a-trial.md":    {runs: map[string]string{".waza/runs/20261124-091502-narration-5b3ea0": "narration"}},
		"howto/prompt-injection.md": {runs: map[string]string{"calm": "injection-none", "gullible": "injection-gullible", "careful": "injection-careful"}},
	}
	howtos, err := filepath.Glob("howto/*.md")
	if err != nil || len(howtos) < len(known) {
		t.Fatalf("%d how-to pages, %v", len(howtos), err)
	}
	for _, path := range howtos {
		p := known[path]
		p.path = path
		all = append(all, p)
	}
	return all
}

// elsewhere are commands of these pages that this test does not run, and who does, or why
// nobody can.
var elsewhere = map[string]string{
	"export ANTHROPIC_API_KEY=...":                                            "it needs a key",
	"waza run --isolate --executor claude --model MODEL --trials 3 eval.yaml": "it needs a key",
	"git switch -c waza":                                                      "it needs a repository",
	"git add server.js Dockerfile eval.yaml tasks .github":                    "it needs a repository",
	"git commit -m \"Add an eval\"":                                           "it needs a repository",
	"git push -u origin waza":                                                 "it needs a repository elsewhere",
	"waza run --isolate examples/browser/eval.yaml":                           "it builds large images; tests of cmd/waza run it",
	"waza run --isolate --keep --task price examples/mcp-eval/eval.yaml":      "it waits for Ctrl-C; tests of cmd/waza run it so",
}

// fence is a fenced block: what stands behind the fence, and the text.
var fence = regexp.MustCompile("(?ms)^```([^\n]*)\n(.*?)^```$")

// TestConsole runs the commands of console blocks, and holds that they print what the page
// shows. A line "..." stands for any lines. With -update the page gets what they print now.
func TestConsole(t *testing.T) {
	waza := dockertest.Waza(t)
	for _, p := range pages(t) {
		t.Run(p.path, func(t *testing.T) {
			t.Parallel()
			if p.engine {
				dockertest.Require(t)
			}
			text := read(t, p.path)
			if _, err := exec.LookPath("jq"); err != nil && strings.Contains(text, "\n$ jq ") {
				t.Skip("there is no jq")
			}
			dir := t.TempDir()
			for name, recorded := range p.runs {
				from := os.DirFS(filepath.Join(root, "test", "frozen", "testdata", "runs", recorded))
				if err := os.CopyFS(filepath.Join(dir, name), from); err != nil {
					t.Fatal(err)
				}
			}
			if p.example != "" {
				if err := os.CopyFS(dir, os.DirFS(filepath.Join(root, "examples", p.example))); err != nil {
					t.Fatal(err)
				}
			}
			played := map[string]bool{}
			for _, run := range runsIn(t, dir) {
				played[run] = true
			}
			now := fence.ReplaceAllStringFunc(text, func(block string) string {
				match := fence.FindStringSubmatch(block)
				language, name, _ := strings.Cut(match[1], " ")
				switch {
				case language == "console":
					shown := console(t, waza, dir, match[2])
					playNew(t, waza, dir, match[2], played)
					return "```console\n" + shown + "```"
				case name != "":
					put(t, filepath.Join(dir, name), match[2])
				}
				return block
			})
			if *golden.Update && now != text {
				put(t, p.path, now)
			}
		})
	}
}

func put(t *testing.T, path, content string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
		t.Fatal(err)
	}
}

// next is printed between two commands of a block.
const next = "@@ next @@"

// console runs the commands of a block in one shell, and returns the block with what they
// print in place of what it showed, where that differs.
func console(t *testing.T, waza, dir, block string) string {
	t.Helper()
	commands, shown := transcriptOf(block)
	var script strings.Builder
	for _, command := range commands {
		fmt.Fprintf(&script, "%s\nstatus=$?; printf '%%s\\n' '%s'; (exit $status)\n", command, next)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, "bash", "-c", script.String())
	cmd.Dir, cmd.Env = dir, append(os.Environ(), "PATH="+filepath.Dir(waza)+":"+os.Getenv("PATH"), "NO_COLOR=1", "TERM=dumb")
	out, err := cmd.CombinedOutput()
	printed := strings.Split(string(out), next+"\n")
	if len(printed) != len(commands)+1 {
		t.Fatalf("%q: %v\n%s", commands, err, out)
	}
	var now strings.Builder
	for i, command := range commands {
		want, got := shown[i], lines(printed[i])
		if !matches(alike(want), alike(got)) {
			if !*golden.Update {
				t.Errorf("$ %s (-shown +printed)\n%s", command, gocmp.Diff(want, got))
			}
			want = got
		}
		fmt.Fprintf(&now, "$ %s\n", command)
		for _, line := range want {
			fmt.Fprintln(&now, line)
		}
	}
	return now.String()
}

// transcriptOf returns the commands of a block and what it shows of each.
func transcriptOf(block string) (commands []string, shown [][]string) {
	for _, line := range lines(block) {
		if command, is := strings.CutPrefix(line, "$ "); is {
			commands, shown = append(commands, command), append(shown, nil)
		} else if len(shown) > 0 {
			shown[len(shown)-1] = append(shown[len(shown)-1], line)
		}
	}
	return commands, shown
}

func lines(text string) []string {
	text = strings.TrimRight(text, "\n")
	if text == "" {
		return nil
	}
	return strings.Split(text, "\n")
}

var (
	// varies is what differs between two runs of the same: times, the ids of runs, digests
	// of images, memory.
	varies = regexp.MustCompile(`\b\d{8}-\d{6}-|-[0-9a-f]{6}\b|\b\d+(\.\d+)?(ns|µs|ms|s|m)\b|\b\d+m\d+s\b|[×~]\d+(\.\d+)?|\b\d+(\.\d+)? [KMG]iB\b|:[0-9a-f]{24}\b|\d{4}-\d\d-\d\d \d\d:\d\d|/tmp/\S+`)
	blanks = regexp.MustCompile(` {2,}|\t`)
	// sometimes is a line that is printed only where something is not at hand yet.
	sometimes = regexp.MustCompile(`^(checking that nothing gets out|building image for|resolving) `)
	// ended is the line of a trial that ended: trials at once end in any order.
	ended = regexp.MustCompile(`^[a-z_]+( \([a-z_]+\))? +[\w.-]+/\d+ `)
)

// alike makes lines equal that differ in no more than what no two runs have alike.
func alike(lines []string) []string {
	lines = slices.DeleteFunc(slices.Clone(lines), sometimes.MatchString)
	var all []string
	first := 0 // of lines of trials that stand together
	for i, line := range lines {
		all = append(all, strings.TrimSpace(blanks.ReplaceAllString(varies.ReplaceAllString(line, "#"), " ")))
		if !ended.MatchString(line) {
			first = i + 1
		}
		slices.Sort(all[first:])
	}
	return all
}

// matches reports whether got is what was wanted, in which "..." stands for any lines.
func matches(want, got []string) bool {
	switch {
	case len(want) == 0:
		return len(got) == 0
	case want[0] == "...":
		return matches(want[1:], got) || len(got) > 0 && matches(want, got[1:])
	}
	return len(got) > 0 && want[0] == got[0] && matches(want[1:], got[1:])
}

// TestEveryCommandIsRun checks that these pages show no command that neither TestConsole nor
// another test runs.
func TestEveryCommandIsRun(t *testing.T) {
	unused := slices.AppendSeq(slices.Collect(maps.Keys(elsewhere)), maps.Keys(unplayed))
	for _, p := range pages(t) {
		for _, match := range fence.FindAllStringSubmatch(read(t, p.path), -1) {
			commands, _ := transcriptOf(match[2])
			for _, command := range commands {
				if match[1] != "console" && elsewhere[command] == "" {
					t.Errorf("%s: nothing runs %q: make its block a console block, or say in elsewhere who does", p.path, command)
				}
				unused = slices.DeleteFunc(unused, func(name string) bool { return name == command })
			}
		}
	}
	slices.SortFunc(unused, cmp.Compare[string])
	if len(unused) > 0 {
		t.Errorf("no page shows %q", unused)
	}
}
