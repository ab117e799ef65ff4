package attacks

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/waza-isolate/waza/internal/memtest"
	"github.com/waza-isolate/waza/sandbox/probe"
)

// Of the run that plays a cassette.
const (
	playLimit  = 20 * time.Second
	playMemory = 256 << 20
	// played is what a cassette must not have come into the record, or on the screen.
	played = "what-n0-one-Recorded"
)

// cassetteAttacks returns the attacks by cassettes that a user plays. The agent calls the tool read of the
// server s 13 times, with a long argument.
func cassetteAttacks() []Attack {
	const (
		greets = "- {kind: {method: initialize}, answer: {value: {result: {protocolVersion: '2025-06-18', capabilities: {tools: {}}, serverInfo: {name: s, version: '1'}}}}}\n" +
			"- {kind: {method: tools/list}, answer: {value: {result: {tools: [{name: read, inputSchema: {type: object}}]}}}}\n"
		nothing = "answer: {value: {result: {content: []}}}"
		said    = `{"result":{"content":[{"type":"text","text":"` + played + `"}]}}`
		side    = "cassette/servers/s.yaml"
	)
	digest := strings.Repeat("a", 64)
	entry1 := func(entry string) string { return "entries:\n" + greets + "- " + entry + "\n" }
	blob := entry1("{kind: {tool: read}, answer: {blob: " + digest + "}}")
	by := func(name, goal string, promise probe.Promise, without probe.Defence, files map[string]string) Attack {
		return Attack{
			Attack: entry("cassette-"+name, goal, promise, without), As: Stranger, In: "secret-spread",
			Won: func(s Scene) (bool, string) { return s.Run.plays(files) },
		}
	}
	return []Attack{
		by("traversal", "have a file beside a cassette played, whose name as a blob has ..", probe.NamedAlone, confinedDigests,
			map[string]string{side: entry1("{kind: {tool: read}, answer: {blob: ../../secret}}"), "secret": said}),
		by("linked-blob", "have a file beside a cassette played, by a link in place of a blob", probe.NamedAlone, confinedDigests,
			map[string]string{side: blob, "cassette/blobs/" + digest: "-> ../../secret", "secret": said}),
		by("linked-side", "have the text of a file shown, by a link in place of a side", probe.NamedAlone, confinedCassettes,
			map[string]string{side: "-> ../../secret", "secret": "password: " + played + "\n"}),
		by("pipe", "keep waza from ever starting a trial, by a pipe in place of a blob", probe.OthersGoOn, confinedCassettes,
			map[string]string{side: blob, "cassette/blobs/" + digest: "PIPE"}),
		by("huge", "exhaust the runner's memory with a large sparse file in place of a side", probe.OthersGoOn, boundedCassettes,
			map[string]string{side: "HUGE"}),
		by("aliases", "exhaust the runner's memory with a small file whose aliases are two million values", probe.OthersGoOn, boundedAliases,
			map[string]string{side: "state:\n" + aliases(7) + entry1("{kind: {tool: read}, "+nothing+"}")}),
		by("depth", "exhaust the runner's stack with a side of half a million lists in each other", probe.OthersGoOn, fewLevelsOfYAML,
			map[string]string{side: "state: {x: " + strings.Repeat("[", 500_000) + strings.Repeat("]", 500_000) + "}\n" + entry1("{"+nothing+"}")}),
		by("digest", "have an answer played that is another than its entry names", probe.FairVerdict, blobDigests,
			map[string]string{side: blob, "cassette/blobs/" + digest: said}),
		by("cycle", "keep waza busy with entries that wait for each other", probe.OthersGoOn, noWaitForItself,
			map[string]string{side: entry1("{name: a, after: b, " + nothing + "}\n- {name: b, after: a, " + nothing + "}")}),
		by("template", "exhaust the runner's memory with a value of the state that doubles with every call", probe.OthersGoOn, boundedTemplates,
			map[string]string{side: "state: {x: " + strings.Repeat("x", 32<<10) + "}\n" + entry1("{kind: {tool: read}, template: true, set: {x: '{{ state.x }}{{ state.x }}'}, "+nothing+"}")}),
		by("expression", "exhaust the runner's memory with a function in a template", probe.OthersGoOn, boundedTemplates,
			map[string]string{side: entry1(`{kind: {tool: read}, template: true, answer: {value: {result: "{{ len(repeat(repeat('x', 1000), 600000)) }}"}}}`)}),
		by("regex", "keep the runner busy with an expression that takes long to match", probe.OthersGoOn, linearExpressions,
			map[string]string{side: entry1("{kind: {tool: read}, match: {arguments.text: {regex: '^(a*)*(a|a)*(.*a){20}$'}}, " + nothing + "}")}),
	}
}

// aliases returns members of a mapping, the last of which has 8^n words with its aliases written out.
func aliases(n int) string {
	text := "  a0: &a0 " + strings.Repeat("x", 30) + "\n"
	for i := range n {
		text += fmt.Sprintf("  a%d: &a%[1]d [%s]\n", i+1, strings.TrimSuffix(strings.Repeat(fmt.Sprintf("*a%d, ", i), 8), ", "))
	}
	return text
}

// plays runs waza with a cassette, and reports whether what must not be played was played or shown, or waza
// took too long, too much memory, or did not end by itself.
func (r *Run) plays(files map[string]string) (won bool, detail string) {
	dir, err := os.MkdirTemp("", "waza-attack-")
	if err != nil {
		return true, err.Error()
	}
	defer func() { _ = os.RemoveAll(dir) }()
	const (
		head = "version: 1\n"
		eval = "name: play\ntasks: [task.yaml]\nconfig: {executor: script, mcp_servers: {s: {command: never}}}\n"
		task = "id: t\ninputs: {prompt: x}\nscript: [{loop: {times: 13, as: i, steps: [{call: {server: s, tool: read, arguments: {text: LONG}}}]}}]\n"
	)
	for name, text := range map[string]string{"eval.yaml": eval, "task.yaml": strings.Replace(task, "LONG", strings.Repeat("a", 20_000)+"!", 1), "cassette/cassette.yaml": head} {
		if err := put(filepath.Join(dir, name), text); err != nil {
			return true, err.Error()
		}
	}
	for name, text := range files {
		if err := put(filepath.Join(dir, filepath.FromSlash(name)), text); err != nil {
			return true, err.Error()
		}
	}
	ctx, cancel := context.WithTimeout(context.Background(), playLimit)
	defer cancel()
	cmd := exec.CommandContext(ctx, r.Waza, "run", "--no-isolate", "--infra-retries", "0", "--cassette", "cassette", "--run-dir", "run", "eval.yaml")
	var output bytes.Buffer
	cmd.Dir, cmd.Stdout, cmd.Stderr, cmd.WaitDelay = dir, &output, &output, time.Second
	if err := cmd.Start(); err != nil {
		return true, err.Error()
	}
	peak := memtest.WatchPeak(cmd.Process.Pid)
	ended := cmd.Wait()
	memory := peak()
	var exit *exec.ExitError
	shown := strings.Contains(output.String(), played)
	_ = filepath.WalkDir(filepath.Join(dir, "run"), func(path string, _ fs.DirEntry, _ error) error { // there may be none
		content, _ := os.ReadFile(path)
		shown = shown || bytes.Contains(content, []byte(played))
		return nil
	})
	said := fmt.Sprintf("%v, %d MiB\n%.2000s", ended, memory>>20, output.String())
	crashed := strings.Contains(output.String(), "goroutine ")
	return shown || crashed || ctx.Err() != nil || memory > playMemory || ended != nil && !errors.As(ended, &exit), said
}

// put writes a file, or what a stranger has in its place.
func put(path, text string) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	target, isLink := strings.CutPrefix(text, "-> ")
	switch {
	case isLink:
		return os.Symlink(target, path)
	case text == "PIPE":
		return syscall.Mkfifo(path, 0o600)
	case text == "HUGE":
		return errors.Join(os.WriteFile(path, nil, 0o600), os.Truncate(path, 150<<20))
	}
	return os.WriteFile(path, []byte(text), 0o600)
}
