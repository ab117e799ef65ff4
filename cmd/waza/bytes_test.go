package main

import (
	"archive/tar"
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/waza-isolate/waza/evidence"
)

// TestBytesEndToEnd checks that messages between agent and server are unchanged at both ends
// and on record: no number is rounded, no key is moved, no character is encoded differently.
// The server answers with the request as it got it.
func TestBytesEndToEnd(t *testing.T) {
	t.Parallel()
	p := newProject(t, `
-- eval.yaml --
name: NAME
config:
  trials_per_task: 1
  parallel: true
  workers: 2
  executor: command
  agent: {command: ./rawecho, args: [send, "http://echo/mcp", sent, got], prompt: stdin}
  isolation: {agent: {image: "debian:bookworm-slim"}}
  mcp_servers:
    echo: {image: "debian:bookworm-slim", command: /srv/rawecho, files: {/srv/rawecho: fixtures/rawecho}}
tasks: [tasks/*.yaml]
-- tasks/1.yaml --
{id: stdio, inputs: {prompt: x, files: [{path: rawecho}, {path: sent}]}, mcp_servers: {echo: {args: [serve]}}}
-- tasks/2.yaml --
{id: http, inputs: {prompt: x, files: [{path: rawecho}, {path: sent}]}, mcp_servers: {echo: {args: [listen, "8080"], port: 8080}}}
`, debian)
	sent := oddRequests()
	p.write("fixtures/sent", strings.Join(sent, "\n")+"\n")
	p.compile("fixtures/rawecho", "./testdata/rawecho")
	p.run(exitOK)
	for _, task := range []string{"stdio", "http"} {
		got := strings.Split(strings.TrimSuffix(workspaceFile(t, p.trial(task), "got"), "\n"), "\n")
		asked, answered := rawFrames(t, p.trial(task))
		if len(got) != len(sent) || len(asked) != len(sent)+1 || len(answered) != len(sent)+1 {
			t.Fatalf("%s: %d answers, %d and %d frames, for %d requests", task, len(got), len(asked), len(answered), len(sent))
		}
		for i, request := range sent {
			want := fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"result":%s}`, i+1, request)
			for where, text := range map[string]string{"the client": got[i], "the record": answered[i+1]} {
				if text != want {
					t.Errorf("%s: %s has %.300q\nwant %.300q", task, where, text, want)
				}
			}
			if asked[i+1] != request {
				t.Errorf("%s: the record has the request %.300q\nwant %.300q", task, asked[i+1], request)
			}
		}
	}
}

// oddRequests returns requests that change when they are decoded and encoded again, with ids
// starting at 1.
func oddRequests() []string {
	var requests []string
	for i, params := range []string{
		`{"n":9007199254740993,"m":-18446744073709551615,"f":1.0,"e":1e2,"E":1E+2,"z":-0,"s":0.10}`,
		"{\"nbsp\":\"a\u00a0b\",\"ideographic\":\"a\u3000b\",\"zwj\":\"\U0001F468\u200d\U0001F469\",\"replacement\":\"\ufffd\",\"separators\":\"\u2028\u2029\"}",
		`{"escaped":"\u00e9\u3000\ud83d\ude00\/\u0041","raw":"é　😀/A","html":"<a href=\"x\">&</a>","escapedHTML":"\u003c"}`,
		`{ "z" : 1 , "a":{"z":1,"a":2,"unknown":{"deep":[ 1,2 , {"x":null} ]}}, "b" :[]  }`,
		`{"twice":1,"twice":2,"name":"x","name":"y"}`,
		`{"long":"` + strings.Repeat("0123456789", 1_000_000) + `"}`,
	} {
		requests = append(requests, fmt.Sprintf(`{"unknown":{"top":true},"params":%s,"method":"x/echo","id":%d,"jsonrpc":"2.0"}`, params, i+1))
	}
	return requests
}

// rawFrames returns the messages of the agent's conversations in each direction.
func rawFrames(t *testing.T, dir evidence.Dir) (toServer, toClient []string) {
	t.Helper()
	for f, err := range dir.Frames() {
		switch {
		case err != nil:
			t.Fatal(err)
		case !f.OfAgent():
		case f.Dir == evidence.ToServer:
			toServer = append(toServer, string(f.Raw))
		default:
			toClient = append(toClient, string(f.Raw))
		}
	}
	return toServer, toClient
}

// workspaceFile reads a file of the workspace.
func workspaceFile(t *testing.T, dir evidence.Dir, name string) string {
	t.Helper()
	tree, err := dir.Workspace()
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = tree.Close() }()
	for in := tar.NewReader(tree); ; {
		header, err := in.Next()
		if errors.Is(err, io.EOF) {
			t.Fatalf("the workspace has no file %s", name)
		}
		if err != nil {
			t.Fatal(err)
		}
		if strings.TrimPrefix(header.Name, "./") == name {
			var content bytes.Buffer
			if _, err := io.Copy(&content, in); err != nil {
				t.Fatal(err)
			}
			return content.String()
		}
	}
}
