package main

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/waza-isolate/waza/evidence"
)

// A service of a server that lives for the run lives as long: what one trial stores
// in the database the next one finds.
func TestSharedServerWithService(t *testing.T) {
	t.Parallel()
	p := newProject(t, `
-- eval.yaml --
name: NAME
config:
  trials_per_task: 2
  executor: script
  mcp_server_lifetime: per_benchmark
  mcp_servers:
    sql:
      image: waza-examples/sql
      env: {DATABASE_URL: "postgres://postgres:example@db/postgres?sslmode=disable"}
      services:
        db:
          image: waza-examples/postgres
          env: {POSTGRES_PASSWORD: example}
          writable: [/var/lib/postgresql/data]
          ports: [5432]
          ready: {exec: [pg_isready, --host=localhost]}
tasks: [task.yaml]
-- task.yaml --
id: x
inputs: {prompt: x}
script:
  - call: {server: sql, tool: execute, arguments: {sql: "CREATE TABLE IF NOT EXISTS visit (n int)"}}
  - call: {server: sql, tool: execute, arguments: {sql: "INSERT INTO visit VALUES (1)"}}
  - call: {server: sql, tool: query, arguments: {sql: "SELECT count(*) FROM visit"}}
    as: count
  - say: "{{ count.json.rows[0][0] }}"
`, "waza-examples/sql", "waza-examples/postgres")
	p.run(exitOK)
	if diff := cmp.Diff([]string{"1", "2"}, p.outputs()); diff != "" {
		t.Error(diff)
	}
	if log := p.read("run", "trials", "x", "1", "servers", "sql.db.stderr"); !strings.Contains(log, "ready to accept connections") {
		t.Errorf("the log of the service: %s", log)
	}
}

// A server over HTTP that lives for the run keeps its memory, and each trial has
// what it wrote meanwhile. The trial under which it dies is told, and the next one
// finds it anew.
func TestSharedHTTPServer(t *testing.T) {
	t.Parallel()
	p := newProject(t, `
-- eval.yaml --
name: NAME
config:
  trials_per_task: 3
  executor: script
  mcp_server_lifetime: per_benchmark
  mcp_servers:
    web: {image: waza-examples/npm-servers, command: node, args: [/server/server.js], port: 8000, files: {/server/server.js: server.js}}
tasks: [task.yaml]
-- task.yaml --
id: x
inputs: {prompt: x}
script:
  - call: {server: web, tool: visit}
    as: visit
  - call: {server: web, tool: tire, expect: any}
  - say: "{{ visit.text }}"
-- server.js --
let visits = 0;
require('http').createServer((req, res) => {
  let body = '';
  req.on('data', d => body += d);
  req.on('end', () => {
    const m = body ? JSON.parse(body) : {};
    if (m.id === undefined) { res.writeHead(202); return res.end(); }
    let result = {protocolVersion: '2025-11-25', capabilities: {tools: {}}, serverInfo: {name: 'n', version: '1'}};
    if (m.method === 'tools/call') {
      if (m.params.name === 'visit') console.error('visit ' + ++visits);
      else if (visits === 2) process.exit(3);
      result = {content: [{type: 'text', text: String(visits)}]};
    }
    res.writeHead(200, {'Content-Type': 'application/json'});
    res.end(JSON.stringify({jsonrpc: '2.0', id: m.id, result}));
  });
}).listen(8000, '127.0.0.1');
`, npmServers)
	c := p.run(exitOK)
	if diff := cmp.Diff([]string{"1", "2", "1"}, p.outputs()); diff != "" {
		t.Error(diff)
	}
	logs := []string{"visit 1\n", "visit 2\n", "visit 1\n"}
	for i, instance := range []int{1, 1, 2} {
		number := i + 1
		record, err := p.trialOf("x", number).Trial()
		if err != nil || len(record.Shared) != 1 {
			t.Fatalf("trial %d: shared servers %+v, %v", number, record.Shared, err)
		}
		if s := record.Shared[0]; s.Instance != instance || (s.Died != "") != (number == 2) {
			t.Errorf("trial %d: %+v", number, s)
		}
		calls, err := p.trialOf("x", number).Calls()
		if err != nil || len(calls) != 2 || (calls[1].Outcome == evidence.OutcomeTransportError) != (number == 2) {
			t.Errorf("trial %d: calls %+v, %v", number, calls, err)
		}
		if log := p.read("run", "trials", "x", fmt.Sprint(number), "servers", "web.stderr"); log != logs[i] {
			t.Errorf("trial %d has the log %q, want %q", number, log, logs[i])
		}
	}
	if said := c.stdout.String(); !strings.Contains(said, "while these trials were at work: x/2\n") {
		t.Errorf("stdout: %s", said)
	}
}

// outputs returns the final outputs of the first task's trials.
func (p *project) outputs() (outputs []string) {
	for _, run := range p.results().Tasks[0].Runs {
		outputs = append(outputs, run.FinalOutput)
	}
	return outputs
}
