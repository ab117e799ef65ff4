package main

import (
	"context"
	"encoding/pem"
	"fmt"
	"io"
	"io/fs"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/mark3labs/mcp-go/mcp"
	mcpserver "github.com/mark3labs/mcp-go/server"
	"github.com/moby/moby/client"

	"github.com/waza-isolate/waza/evidence"
	"github.com/waza-isolate/waza/internal/dockertest"
)

// outcomes returns a task's calls with their server, tool and outcome.
func (p *project) outcomes(task string) []string {
	p.t.Helper()
	calls, err := p.trial(task).Calls()
	if err != nil {
		p.t.Fatal(err)
	}
	var all []string
	for _, call := range calls {
		all = append(all, fmt.Sprintf("%s %s %s", call.Server, call.Tool, call.Outcome))
	}
	return all
}

// events returns a task's events of a kind.
func (p *project) events(task, kind string) []evidence.Event {
	p.t.Helper()
	all, err := p.trial(task).Events()
	if err != nil {
		p.t.Fatal(err)
	}
	return slices.DeleteFunc(all, func(e evidence.Event) bool { return e.Kind != kind })
}

// Servers that listen in their containers, over both transports, and one with
// tools that the agent does not see.
func TestHTTPServersInContainers(t *testing.T) {
	t.Parallel()
	p := newProject(t, `
-- eval.yaml --
name: NAME
config:
  trials_per_task: 1
  executor: script
  isolation: {network: airtight, server_image: waza-examples/npm-servers}
  mcp_servers:
    web: {command: mcp-server-everything, args: [streamableHttp], port: 3001, env: {PORT: "3001"}}
    old: {command: mcp-server-everything, args: [sse], type: sse, port: 3002, env: {PORT: "3002"}}
    some: {command: mcp-server-everything, args: [streamableHttp], type: http, port: 80, path: /mcp, env: {PORT: "80"}, tools: [echo]}
tasks: [task.yaml]
-- task.yaml --
id: x
inputs: {prompt: x}
script:
  - call: {server: web, tool: echo, arguments: {message: one}}
  - call: {server: old, tool: echo, arguments: {message: two}}
  - call: {server: some, tool: echo, arguments: {message: three}}
  - call: {server: web, tool: trigger-long-running-operation, arguments: {duration: 1, steps: 2}}
  - call: {server: old, tool: trigger-long-running-operation, arguments: {duration: 1, steps: 2}}
  - call: {server: some, tool: get-env, expect: protocol_error}
  - call: {server: old, tool: nonesuch, expect: any}
  - say: done
`, npmServers)
	p.run(exitOK)
	want := []string{
		"web echo ok", "old echo ok", "some echo ok", "web trigger-long-running-operation ok",
		"old trigger-long-running-operation ok", "some get-env protocol_error", "old nonesuch tool_error",
	}
	if diff := cmp.Diff(want, p.outcomes("x")); diff != "" {
		t.Error(diff)
	}
	if log := p.read("run", "trials", "x", "1", "servers", "web.stderr"); !strings.Contains(log, "3001") {
		t.Errorf("the log of web: %s", log)
	}
	for _, server := range p.runOfServers("x") {
		if server.Transport == "stdio" {
			t.Errorf("%+v", server)
		}
	}
}

func (p *project) runOfServers(task string) []evidence.ServerRecord {
	p.t.Helper()
	trial, err := p.trial(task).Trial()
	if err != nil {
		p.t.Fatal(err)
	}
	return trial.Servers
}

// TestHTTPServersThatFail checks servers that exit during a call, and servers that never start.
func TestHTTPServersThatFail(t *testing.T) {
	t.Parallel()
	p := newProject(t, `
-- eval.yaml --
name: NAME
config: {trials_per_task: 1, parallel: true, workers: 2, executor: script, isolation: {network: airtight, server_image: waza-examples/npm-servers}}
tasks: [tasks/*.yaml]
-- server.js --
require('http').createServer((req, res) => {
  let body = '';
  req.on('data', d => body += d);
  req.on('end', () => {
    const m = body ? JSON.parse(body) : {};
    if (m.method === 'tools/call') { console.error('last words'); process.exit(3); }
    if (m.id === undefined) { res.writeHead(202); return res.end(); }
    res.writeHead(200, {'Content-Type': 'application/json'});
    res.end(JSON.stringify({jsonrpc: '2.0', id: m.id, result: {protocolVersion: '2025-11-25', capabilities: {}, serverInfo: {name: 'n', version: '1'}}}));
  });
}).listen(8000, '127.0.0.1');
-- tasks/1.yaml --
id: dies
inputs: {prompt: x}
mcp_servers: {web: {command: node, args: [/server/server.js], port: 8000, files: {/server/server.js: server.js}}}
script:
  - call: {server: web, tool: x, expect: any}
  - call: {server: web, tool: y, expect: any}
  - sleep: 500ms # until the runner knows of its end
-- tasks/2.yaml --
id: exits
inputs: {prompt: x}
mcp_servers: {web: {command: sh, args: [-c, "echo no database; exit 7"], port: 8000}}
script: [{say: x}]
-- tasks/3.yaml --
id: deaf
inputs: {prompt: x}
mcp_servers: {web: {command: sleep, args: ["60"], port: 8000, startup_timeout: 2}}
script: [{say: x}]
-- tasks/4.yaml --
id: elsewhere
inputs: {prompt: x}
mcp_servers: {web: {command: mcp-server-everything, args: [streamableHttp], port: 3001, path: /other, env: {PORT: "3001"}}}
script: [{say: x}]
-- tasks/5.yaml --
id: misspelt
inputs: {prompt: x}
mcp_servers: {web: {command: mcp-server-everything, args: [streamableHttp], port: 3001, env: {PORT: "3001"}, tools: [eco]}}
script: [{say: x}]
`, npmServers)
	p.run(exitInfra, "--infra-retries", "0")
	for _, outcome := range p.outcomes("dies") {
		if !strings.HasSuffix(outcome, "transport_error") {
			t.Errorf("dies: %s", outcome)
		}
	}
	if exits := p.events("dies", "server_exit"); len(exits) != 1 || exits[0].Message != "exited with code 3" || exits[0].Data["asked"] != false {
		t.Errorf("dies: %+v", exits)
	}
	for task, reason := range map[string]string{
		"exits":     "exited with code 7 before it answered; its stderr:\nno database",
		"deaf":      "did not answer in time",
		"elsewhere": "is /other the path of its endpoint?",
		"misspelt":  `mcp_servers.web.tools names "eco"; the server has "echo"`,
	} {
		want := evidence.ClassInfra
		if task == "exits" {
			want = evidence.ClassServerError
		}
		if run := p.runOf(task); run.Outcome != want || !strings.Contains(run.Message, reason) {
			t.Errorf("%s: %s %s", task, run.Outcome, run.Message)
		}
	}
}

const token = "Bearer e2e-token-9f8e7d"

// guarded is a handler that requires the token.
func guarded(handler http.Handler) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != token || r.Header.Get("Cookie") != "" {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		handler.ServeHTTP(w, r)
	}
}

// A remote server is dialled by the runner, which alone has the token for it.
func TestRemoteServers(t *testing.T) {
	t.Parallel()
	var p *project
	var looked atomic.Int32
	server := mcpserver.NewMCPServer("far", "1")
	server.AddTool(mcp.NewTool("look"), func(ctx context.Context, _ mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		looked.Add(lookForToken(ctx, t, p))
		return mcp.NewToolResultText("here: " + token), nil
	})
	var strangers atomic.Int32
	stranger := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { strangers.Add(1) }))
	t.Cleanup(stranger.Close)
	streamable := mcpserver.NewStreamableHTTPServer(server)
	plain := httptest.NewServer(guarded(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Query().Get("elsewhere") != "" && r.Header.Get("Mcp-Method") == "tools/call" {
			http.Redirect(w, r, stranger.URL, http.StatusTemporaryRedirect)
			return
		}
		streamable.ServeHTTP(w, r)
	})))
	safe := httptest.NewUnstartedServer(guarded(mcpserver.NewStreamableHTTPServer(server)))
	safe.EnableHTTP2 = true
	safe.Config.ErrorLog = log.New(io.Discard, "", 0)
	safe.StartTLS()
	old := httptest.NewServer(guarded(mcpserver.NewSSEServer(server)))
	for _, s := range []*httptest.Server{plain, safe, old} {
		t.Cleanup(func() { s.CloseClientConnections(); s.Close() })
	}
	p = newProject(t, `
-- eval.yaml --
name: NAME
config:
  trials_per_task: 1
  executor: script
  mcp_servers:
    plain: {url: "${E2E_PLAIN}/mcp", headers: {Authorization: "${E2E_TOKEN}"}}
    safe: {url: "${E2E_SAFE}/mcp", headers: {Authorization: "${E2E_TOKEN}"}, tools: [look]}
    old: {type: sse, url: "${E2E_OLD}/sse", headers: {Authorization: "${E2E_TOKEN}"}}
tasks: [tasks/*.yaml]
-- tasks/1.yaml --
id: calls
inputs: {prompt: x}
script:
  - call: {server: plain, tool: look}
  - call: {server: safe, tool: look}
  - call: {server: old, tool: look}
  - say: done
-- tasks/2.yaml --
id: sent-away
inputs: {prompt: x}
mcp_servers: {safe: null, old: null, plain: {url: "${E2E_PLAIN}/mcp?elsewhere=1"}}
script:
  - call: {server: plain, tool: look, expect: any}
`, debian)
	certificate := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: safe.Certificate().Raw})
	p.write("roots.pem", string(certificate))
	p.env = append(p.env, "E2E_TOKEN="+token, "E2E_PLAIN="+plain.URL, "E2E_SAFE="+safe.URL, "E2E_OLD="+old.URL, "SSL_CERT_FILE="+p.path("roots.pem"))
	p.run(exitOK, "-v")
	if diff := cmp.Diff([]string{"plain look ok", "safe look ok", "old look ok"}, p.outcomes("calls")); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]string{"plain look transport_error"}, p.outcomes("sent-away")); diff != "" {
		t.Error(diff)
	}
	if len(p.events("sent-away", "redirect")) == 0 || strangers.Load() > 0 {
		t.Errorf("the other origin was asked %d times", strangers.Load())
	}
	if out := p.events("calls", "egress"); len(out) != 3 {
		t.Errorf("egress: %+v", out)
	}
	if looked.Load() < 3 {
		t.Errorf("looked at %d containers", looked.Load())
	}
	noFileHolds(t, p.path("run"), "e2e-token-9f8e7d")

	p.env = append(p.env, "SSL_CERT_FILE=/nonexistent", "SSL_CERT_DIR=/nonexistent")
	p.start("run", "--isolate", "--task", "calls", "--run-dir", "untrusted", "eval.yaml").wait(exitInfra)
	if reason := p.read("untrusted", "trials", "calls", "1", "trial.json"); !strings.Contains(reason, "certificate") {
		t.Errorf("an unknown certificate: %s", reason)
	}
}

// lookForToken searches the engine's data on the run's containers for the token, and returns
// the number of containers.
func lookForToken(ctx context.Context, t *testing.T, p *project) int32 {
	engine := dockertest.Engine(t)
	var looked int32
	for _, run := range dockertest.Runs(t, engine, p.name) {
		for _, c := range dockertest.Containers(t, engine, run) {
			found, err := engine.ContainerInspect(ctx, c.ID, client.ContainerInspectOptions{})
			if err != nil {
				continue // it has ended meanwhile
			}
			looked++
			if strings.Contains(string(found.Raw), "e2e-token") {
				t.Errorf("container %v holds the token", c.Names)
			}
		}
	}
	return looked
}

func noFileHolds(t *testing.T, dir, secret string) {
	t.Helper()
	files := 0
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		files++
		data, err := os.ReadFile(path)
		if strings.Contains(string(data), secret) {
			t.Errorf("%s holds the secret", path)
		}
		return err
	})
	if err != nil || files < 10 {
		t.Errorf("looked at %d files, %v", files, err)
	}
}

// What the environment says of proxies does not count, what the eval says does.
// Without a token the user is told what to set.
func TestRemoteServersAndProxies(t *testing.T) {
	t.Parallel()
	var unasked atomic.Int32
	environment := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { unasked.Add(1) }))
	t.Cleanup(environment.Close)
	server := mcpserver.NewMCPServer("far", "1")
	server.AddTool(mcp.NewTool("look"), func(context.Context, mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		return mcp.NewToolResultText("x"), nil
	})
	streamable := mcpserver.NewStreamableHTTPServer(server)
	var asked []string
	proxy := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked = append(asked, r.URL.Host)
		r.Host = "localhost" // mcp-go's server refuses others on loopback
		streamable.ServeHTTP(w, r)
	}))
	t.Cleanup(func() { proxy.CloseClientConnections(); proxy.Close() })
	locked := httptest.NewServer(guarded(streamable))
	t.Cleanup(locked.Close)
	p := newProject(t, `
-- eval.yaml --
name: NAME
config: {trials_per_task: 1, isolation: {network: airtight}, executor: script}
tasks: [tasks/*.yaml]
-- tasks/1.yaml --
id: of-the-eval
inputs: {prompt: x}
mcp_servers: {far: {url: "http://mcp.invalid/mcp", proxy: "${E2E_PROXY}"}}
script: [{call: {server: far, tool: look}}]
-- tasks/2.yaml --
id: of-the-environment
inputs: {prompt: x}
mcp_servers: {far: {url: "http://mcp.invalid/mcp", startup_timeout: 5}}
script: [{call: {server: far, tool: look}}]
-- tasks/3.yaml --
id: locked
inputs: {prompt: x}
mcp_servers: {far: {url: "${E2E_LOCKED}/mcp"}}
script: [{call: {server: far, tool: look}}]
`, debian)
	p.env = append(p.env, "E2E_PROXY="+proxy.URL, "E2E_LOCKED="+locked.URL)
	for _, name := range []string{"HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "http_proxy", "https_proxy", "all_proxy"} {
		p.env = append(p.env, name+"="+environment.URL)
	}
	p.env = append(slices.DeleteFunc(p.env, func(v string) bool { return strings.HasPrefix(strings.ToLower(v), "no_proxy=") }), "NO_PROXY=127.0.0.1,localhost")
	p.run(exitInfra, "--infra-retries", "0")
	if diff := cmp.Diff([]string{"far look ok"}, p.outcomes("of-the-eval")); diff != "" || len(asked) == 0 || slices.Contains(asked, "") {
		t.Errorf("%s\nthe proxy was asked for %q", diff, asked)
	}
	if run := p.runOf("of-the-environment"); run.Outcome != evidence.ClassInfra || unasked.Load() > 0 {
		t.Errorf("%s, and the environment's proxy was asked %d times", run.Outcome, unasked.Load())
	}
	if run := p.runOf("locked"); !strings.Contains(run.Message, `MCP server "far" requires authorization: HTTP 401; set headers.Authorization of mcp_servers.far, such as "Bearer ${TOKEN}"`) || strings.Contains(run.Message, "hint:") {
		t.Errorf("%s %s", run.Outcome, run.Message)
	}
}
