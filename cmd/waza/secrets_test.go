package main

import (
	"bytes"
	"context"
	"crypto/md5"
	"crypto/sha1"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"hash"
	"io"
	"io/fs"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"

	"github.com/mark3labs/mcp-go/mcp"
	mcpserver "github.com/mark3labs/mcp-go/server"

	"github.com/waza-isolate/waza/evidence"
	"github.com/waza-isolate/waza/internal/dockertest"
)

// Secrets of the tests, by the name of the server's variable.
var hushed = map[string]string{
	"FROM_ENV":     "hush/Zk3+v9\"\\Q 41",
	"FROM_FILE":    "file-Secret_71b0c9",
	"FROM_COMMAND": "cmd~sécret/5f2e=?",
}

// writings returns the forms of a secret that must not occur: as it is and in common encodings;
// for base64 the part that does not depend on the surrounding text.
func writings(secret string) map[string]string {
	quoted, err := json.Marshal(secret)
	if err != nil {
		panic(err)
	}
	escaped := ""
	for _, r := range secret {
		escaped += fmt.Sprintf(`\u%04x`, r)
	}
	digits := hex.EncodeToString([]byte(secret))
	all := map[string]string{
		"as it is": secret, "in JSON": string(quoted[1 : len(quoted)-1]), "in escapes": escaped,
		"in a query": url.QueryEscape(secret), "in a path": url.PathEscape(secret), "in hex": digits, "in upper hex": strings.ToUpper(digits),
	}
	for before := range 3 {
		encoded := base64.RawStdEncoding.EncodeToString([]byte(strings.Repeat("x", before) + secret))
		core := encoded[(8*before+5)/6 : 8*(before+len(secret))/6]
		all[fmt.Sprintf("in base64 behind %d", before)] = core
		all[fmt.Sprintf("in URL's base64 behind %d", before)] = strings.NewReplacer("+", "-", "/", "_").Replace(core)
	}
	return all
}

// tellsNothing checks that a text contains no secrets.
func tellsNothing(t *testing.T, where string, text []byte) {
	t.Helper()
	for name, secret := range hushed {
		for how, writing := range writings(secret) {
			if bytes.Contains(text, []byte(writing)) {
				t.Errorf("%s has %s %s: %s", where, name, how, writing)
			}
		}
	}
}

// noneIn checks that no file of a directory contains a secret, nor its name.
func noneIn(t *testing.T, dir string) {
	t.Helper()
	files := 0
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		files++
		content, err := os.ReadFile(path)
		tellsNothing(t, path, append([]byte(path+"\n"), content...))
		return err
	})
	if err != nil || files < 10 {
		t.Errorf("looked at %d files, %v", files, err)
	}
}

// noneInProcesses checks that no process of this machine was started with a secret.
func noneInProcesses(t *testing.T) {
	t.Helper()
	all, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil || len(all) == 0 {
		t.Fatalf("%d processes, %v", len(all), err)
	}
	for _, file := range all {
		if line, err := os.ReadFile(file); err == nil { // it may have ended
			tellsNothing(t, file, line)
		}
	}
}

// noneInImages checks that no image of a run's containers contains a secret.
func noneInImages(t *testing.T, p *project) {
	t.Helper()
	engine := dockertest.Engine(t)
	for _, run := range dockertest.Runs(t, engine, p.name) {
		for _, c := range dockertest.Containers(t, engine, run) {
			history, err := engine.ImageHistory(t.Context(), c.ImageID)
			if err != nil {
				t.Error(err)
			}
			tellsNothing(t, c.Image, fmt.Append(nil, history))
		}
	}
}

// A server's secrets are in no container's configuration, no image, no process's
// arguments and nothing that a run leaves or prints, though the server tells them
// in every way, and the agent passes them on. What crosses the wire is as it was.
// Checks of what they were removed from are errors that name them.
func TestSecretsStayWithTheirServer(t *testing.T) {
	t.Parallel()
	var p *project
	var once sync.Once
	heard := make(chan string, 1)
	server := mcpserver.NewMCPServer("watch", "1")
	server.AddTool(mcp.NewTool("look"), func(_ context.Context, r mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		once.Do(func() {
			heard <- r.GetString("text", "")
			for _, secret := range hushed {
				p.inspectAll(secret)
			}
			noneInProcesses(t)
			noneInImages(t, p)
		})
		return mcp.NewToolResultText("seen"), nil
	})
	watch := httptest.NewServer(mcpserver.NewStreamableHTTPServer(server))
	t.Cleanup(func() { watch.CloseClientConnections(); watch.Close() })
	p = newProject(t, `
-- eval.yaml --
name: NAME
config:
  trials_per_task: 1
  executor: script
  mcp_servers:
    it: &it
      image: debian:bookworm-slim
      command: /srv/blab
      args: [FROM_ENV, FROM_FILE, FROM_COMMAND]
      files: {/srv/blab: blab, /srv/token: secret.txt}
      secrets:
        FROM_ENV: {env: E2E_SECRET}
        FROM_FILE: {file: secret.txt}
        FROM_COMMAND: {command: [cat, second.txt]}
    watch: {url: "${E2E_WATCH}/mcp"}
  isolation: {network: airtight, agent: {image: debian:bookworm-slim}}
tasks: [task.yaml]
-- task.yaml --
id: tell
inputs: {prompt: x, files: [{path: given.txt}]}
script:
  - call: {server: it, tool: say}
    as: said
  - call: {server: it, tool: fail, expect: protocol_error}
  - call: {server: watch, tool: look, arguments: {text: "{{ said.text }}"}}
  - read: {path: given.txt}
    as: given
  - write: {path: leak.txt, content: "{{ given.text }} {{ said.text }}"}
  - write: {path: "dir/of {{ said.json?.x ?? 'file-Secret_71b0c9' }}", content: named}
  - say: "{{ said.text }}"
graders:
  - {type: file, name: leaked, config: {content_patterns: [{path: leak.txt, must_match: ["[*]{18}"], must_not_match: [Secret_71b0c9]}]}}
  - type: program
    name: sees-no-more
    config: {command: sh, args: [-c, '! grep -q Secret_71b0c9 $WAZA_WORKSPACE_DIR/leak.txt && ls "$WAZA_WORKSPACE_DIR/dir/of ******************"']}
-- fixtures/given.txt --
given file-Secret_71b0c9
-- secret.txt --
file-Secret_71b0c9
-- second.txt --
cmd~sécret/5f2e=?
`, debian)
	p.compile("blab", "./testdata/blab")
	p.write("task.yaml", strings.Replace(p.read("task.yaml"), "{{ said.json?.x ?? 'file-Secret_71b0c9' }}", "{{ split(said.text, ' | ')[17] }}", 1))
	p.env = append(p.env, "E2E_SECRET="+hushed["FROM_ENV"], "E2E_WATCH="+watch.URL)
	c := p.run(exitFailed, "-v", "-o", "results-too.json")
	for grader, from := range map[string]string{"leaked": `"leak.txt"`, "sees-no-more": "the output"} {
		want := grader + " (error): missing evidence: waza removed the secrets it/FROM_COMMAND, it/FROM_ENV, it/FROM_FILE from " + from
		if !strings.Contains(c.stdout.String(), want) {
			t.Errorf("%q is not in %s", want, c.stdout.String())
		}
	}
	var program evidence.ProgramAnswer
	steps, err := p.trial("tell").Steps()
	if err != nil || len(steps) != 1 || json.Unmarshal(steps[0].Answer, &program) != nil || program.ExitCode == nil || *program.ExitCode != 0 {
		t.Errorf("the program saw a secret, or did not run: %v, %+v", err, steps)
	}
	all := <-heard
	for name, secret := range hushed {
		if !strings.Contains(all, secret) {
			t.Errorf("%s did not cross the wire as it is: %s", name, all)
		}
	}
	noneIn(t, p.path("run"))
	tellsNothing(t, "the results", []byte(p.read("results-too.json")))
	tellsNothing(t, "what is printed", []byte(c.stdout.String()+c.stderr.String()))

	record, err := p.trial("tell").Trial()
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range []string{evidence.FramesOf("it"), evidence.EventsFile, evidence.StdoutFile, evidence.TrialFile, evidence.BeforeFile, evidence.WorkspaceFile, evidence.TranscriptFile, "servers/it.stderr"} {
		if record.Redacted[file].Spans == 0 {
			t.Errorf("nothing was taken out of %s: %+v", file, record.Redacted)
		}
	}
	if record.Redacted[evidence.WorkspaceFile].Files["leak.txt"] < 10 {
		t.Errorf("of the workspace: %+v", record.Redacted[evidence.WorkspaceFile])
	}
	echoes, err := p.trial("tell").Echoes(record)
	if err != nil || len(echoes["it"]) != len(hushed) {
		t.Fatalf("the server said %+v, %v", echoes, err)
	}
	for _, e := range echoes["it"] {
		if e.Frames < 20 || e.Stderr < 10 {
			t.Errorf("the server said %+v", e)
		}
	}
	noDigestTells(t, p)
	if printed := p.start("run", "--isolate", "--dry-run", "eval.yaml").wait(exitOK).stdout.String(); !strings.Contains(printed, "secret FROM_COMMAND is what the command [\"cat\" \"second.txt\"] prints") {
		t.Errorf("planned: %s", printed)
	}
}

// noDigestTells checks that a run contains no digests of what was redacted: of secrets, and of
// its files with secrets restored.
func noDigestTells(t *testing.T, p *project) {
	t.Helper()
	kept := map[string]string{}
	err := filepath.WalkDir(p.path("run"), func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		content, err := os.ReadFile(path)
		kept[path] = string(content)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	guesses := map[string]string{"the file of a secret": p.read("secret.txt"), "a file of the task": p.read("fixtures/given.txt")}
	for name, secret := range hushed {
		guesses[name] = secret
		for path, content := range kept {
			restored := strings.NewReplacer(strings.Repeat("*", len(secret)), secret).Replace(content)
			if restored != content {
				guesses[path+" with "+name] = restored
			}
		}
	}
	for what, guess := range guesses {
		for _, digest := range digestsOf(guess) {
			for path, content := range kept {
				if strings.Contains(content, digest) {
					t.Errorf("%s has a digest of %s", path, what)
				}
			}
		}
	}
}

// digestsOf returns prefixes of a text's digests.
func digestsOf(text string) (all []string) {
	for _, hash := range []hash.Hash{sha256.New(), sha1.New(), md5.New()} {
		_, _ = io.WriteString(hash, text)
		sum := hash.Sum(nil)
		all = append(all, hex.EncodeToString(sum[:6]), base64.StdEncoding.EncodeToString(sum)[:8])
	}
	return all
}

// Without --isolate a secret goes to its server's process alone too: the agent's has not
// even the variable that it comes from. What cannot be had is told before anything
// starts, and a server that dies telling its secret does not have it printed.
func TestSecretsWithoutIsolation(t *testing.T) {
	t.Parallel()
	p := unpackProject(t, `
-- eval.yaml --
name: NAME
config:
  trials_per_task: 1
  executor: command
  agent: {command: sh, args: [-c, 'env; cat given.txt; cp given.txt left.txt']}
  mcp_servers:
    it:
      command: ./blab
      args: [FROM_ENV, FROM_FILE, FROM_COMMAND]
      secrets:
        FROM_ENV: {env: E2E_SECRET}
        FROM_FILE: {file: secret.txt}
        FROM_COMMAND: {command: [sh, -c, "echo asked >> asked; cat second.txt"]}
tasks: [tasks/*.yaml]
-- tasks/1.yaml --
{id: fine, inputs: {prompt: x, files: [{path: given.txt}]}}
-- tasks/2.yaml --
id: dies
inputs: {prompt: x}
mcp_servers: {it: {command: sh, args: [-c, 'echo "I know $FROM_FILE and $FROM_ENV" >&2; exit 1']}}
-- fixtures/given.txt --
given file-Secret_71b0c9
-- secret.txt --
file-Secret_71b0c9
-- second.txt --
cmd~sécret/5f2e=?
`)
	p.compile("blab", "./testdata/blab")
	p.env = append(p.env, "E2E_SECRET="+hushed["FROM_ENV"])
	c := p.start("run", "eval.yaml", "--run-dir", "run", "-v").wait(exitFailed)
	noneIn(t, p.path("run"))
	tellsNothing(t, "what is printed", []byte(c.stdout.String()+c.stderr.String()))
	if said := p.read("run", "trials", "fine", "1", evidence.StdoutFile); strings.Contains(said, "E2E_SECRET") || strings.Contains(said, "FROM_") || !strings.Contains(said, "given ****") {
		t.Errorf("the agent has in its environment: %s", said)
	}
	if why := p.read("run", "trials", "dies", "1", evidence.TrialFile); !strings.Contains(why, "I know ****") {
		t.Errorf("a server that dies: %s", why)
	}
	if p.read("asked") != "asked\n" {
		t.Errorf("the command was run more than once: %q", p.read("asked"))
	}
	noDigestTells(t, p)

	p.env = append(p.env, "E2E_SECRET=")
	p.write("secret.txt", "\n")
	p.write("second.txt", "abc")
	failed := p.start("run", "eval.yaml", "--run-dir", "never").wait(exitUsage).stderr.String()
	for _, why := range []string{
		`server "it": secrets.FROM_COMMAND: what the command ["sh" "-c" "echo asked >> asked; cat second.txt"] prints has fewer than 4 bytes`,
		`server "it": secrets.FROM_ENV: the variable E2E_SECRET is empty`,
		`server "it": secrets.FROM_FILE: the file secret.txt is empty`,
	} {
		if !strings.Contains(failed, why) {
			t.Errorf("%q is not in %s", why, failed)
		}
	}
	if p.exists("never") {
		t.Error("a run directory was made")
	}
	p.start("run", "eval.yaml", "--dry-run").wait(exitOK)
}

// The example of the page on secrets does what the page says, with a server from npm.
func TestSecretsExample(t *testing.T) {
	t.Parallel()
	p := newProject(t, "", npmServers)
	page, err := os.ReadFile("../../docs/secrets.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, block := range regexp.MustCompile("(?ms)^```yaml (\\S+)\n(.*?)^```$").FindAllSubmatch(page, -1) {
		p.write(string(block[1]), strings.Replace(string(block[2]), "name: secrets", "name: "+p.name, 1))
	}
	p.write("signing.key", "sign-4f0c77e1d2\n")
	p.write("session.sh", "echo session-of-this-run\n")
	p.env = append(p.env, "EVERYTHING_TOKEN=tok-93b1e07a5c")
	p.run(exitOK)
	for _, secret := range []string{"tok-93b1e07a5c", "sign-4f0c77e1d2", "session-of-this-run"} {
		noFileHolds(t, p.path("run"), secret)
	}
	record, err := p.trial("indiscreet").Trial()
	if err != nil {
		t.Fatal(err)
	}
	echoes, err := p.trial("indiscreet").Echoes(record)
	if err != nil || len(echoes["everything"]) != 3 || record.Redacted[evidence.WorkspaceFile].Files["notes.txt"] != 3 {
		t.Errorf("echoed %+v, %v, and %+v", echoes, err, record.Redacted)
	}
}
