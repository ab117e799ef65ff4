package main

import (
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/waza-isolate/waza/images"
	"github.com/waza-isolate/waza/internal/dockertest"
)

// beginner is somebody with a server: its files, the directory in which they type, the file that they edit there, how a
// comment begins in it, and what they give to init. With a database, the server does not start until the eval is completed.
type beginner struct {
	files, dir, file, comment string
	init                      []string
	breaks                    []breakage
	database                  bool
}

// breakage is an edit after which a tool is broken.
type breakage struct{ what, from, to string }

// beginners returns what people have who have a server and nothing else. The servers in Go and Python and that with a
// database have no SDK; the one in Python ignores methods that it does not know, as short servers do. Those that take
// long to compile break in one way only.
func beginners() map[string]beginner {
	return map[string]beginner{
		"node": {
			file: "server.js", comment: "//", init: []string{"--", "node", "server.js"},
			breaks: []breakage{{"a wrong answer", "a + b", "a - b"}, {"an exception", "return { content", "null.sum; return { content"}, {"a tool that is gone", `"add"`, `"plus"`}},
			files: `
-- package.json --
{"name": "sums", "version": "1.0.0", "private": true, "type": "module", "dependencies": {"@modelcontextprotocol/sdk": "1.32.2"}}
-- server.js --
import { Server } from "@modelcontextprotocol/sdk/server/index.js";
import { StdioServerTransport } from "@modelcontextprotocol/sdk/server/stdio.js";
import { CallToolRequestSchema, ListToolsRequestSchema } from "@modelcontextprotocol/sdk/types.js";

const number = { type: "number" };
const server = new Server({ name: "sums", version: "1.0.0" }, { capabilities: { tools: {} } });
server.setRequestHandler(ListToolsRequestSchema, () => ({
  tools: [{ name: "add", description: "Adds two numbers.", inputSchema: { type: "object", properties: { a: number, b: number }, required: ["a", "b"] } }],
}));
server.setRequestHandler(CallToolRequestSchema, ({ params: { arguments: { a, b } } }) => {
  return { content: [{ type: "text", text: "The sum is " + (a + b) }] };
});
await server.connect(new StdioServerTransport());
`,
		},
		"typescript": { // in a package of a monorepo
			dir: "packages/units", file: "src/index.ts", comment: "//", init: []string{"--", "node", "dist/index.js"},
			breaks: []breakage{{"an exception", "return { content", `throw new Error("no scale"); return { content`}},
			files: `
-- package.json --
{"name": "tools", "private": true, "workspaces": ["packages/*"]}
-- packages/units/package.json --
{"name": "units", "version": "1.0.0", "private": true, "type": "module", "main": "dist/index.js", "scripts": {"build": "tsc"},
 "dependencies": {"@modelcontextprotocol/sdk": "1.32.2"}, "devDependencies": {"typescript": "5.9.3"}}
-- packages/units/tsconfig.json --
{"compilerOptions": {"target": "es2022", "module": "nodenext", "outDir": "dist", "rootDir": "src", "strict": true, "skipLibCheck": true, "types": []}}
-- packages/units/src/index.ts --
import { Server } from "@modelcontextprotocol/sdk/server/index.js";
import { StdioServerTransport } from "@modelcontextprotocol/sdk/server/stdio.js";
import { CallToolRequestSchema, ListToolsRequestSchema } from "@modelcontextprotocol/sdk/types.js";

const server = new Server({ name: "units", version: "1.0.0" }, { capabilities: { tools: {} } });
server.setRequestHandler(ListToolsRequestSchema, async () => ({
  tools: [{
    name: "to_fahrenheit", description: "Converts degrees Celsius.", annotations: { readOnlyHint: true },
    inputSchema: { type: "object" as const, properties: { celsius: { type: "number" } }, required: ["celsius"] },
  }],
}));
server.setRequestHandler(CallToolRequestSchema, async (request) => {
  const celsius = Number(request.params.arguments?.celsius);
  return { content: [{ type: "text" as const, text: celsius * 1.8 + 32 + " degrees Fahrenheit" }] };
});
await server.connect(new StdioServerTransport());
`,
		},
		"go": {
			file: "main.go", comment: "//", init: []string{"--", "go", "run", "."},
			breaks: []breakage{{"a wrong answer", "d letters", "d characters"}},
			files: `
-- go.mod --
module letters

go 1.22
-- main.go --
package main

import ("bufio"; "encoding/json"; "fmt"; "os")

func main() {
	result := map[string]string{"tools/list": ` + "`" + `{"tools":[{"name":"count_letters","inputSchema":{"type":"object","properties":{"text":{"type":"string"}},"required":["text"]}}]}` + "`" + `}
	for in := bufio.NewScanner(os.Stdin); in.Scan(); {
		var m struct{ ID json.RawMessage; Method string; Params struct{ ProtocolVersion string; Arguments struct{ Text string } } }
		_ = json.Unmarshal(in.Bytes(), &m)
		result["initialize"] = fmt.Sprintf(` + "`" + `{"protocolVersion":%q,"capabilities":{"tools":{}},"serverInfo":{"name":"letters","version":"1"}}` + "`" + `, m.Params.ProtocolVersion)
		result["tools/call"] = fmt.Sprintf(` + "`" + `{"content":[{"type":"text","text":"%d letters"}]}` + "`" + `, len(m.Params.Arguments.Text))
		if r := result[m.Method]; r != "" {
			fmt.Printf(` + "`" + `{"jsonrpc":"2.0","id":%s,"result":%s}` + "`" + `+"\n", m.ID, r)
		} else if m.ID != nil {
			fmt.Printf(` + "`" + `{"jsonrpc":"2.0","id":%s,"error":{"code":-32601,"message":"what?"}}` + "`" + `+"\n", m.ID)
		}
	}
}
`,
		},
		"python": {
			file: "server.py", comment: "#", init: []string{"--", "python3", "server.py"},
			breaks: []breakage{{"a wrong answer", "Sunny", "Rainy"}, {"an exception", "p['arguments']", "p['args']"}, {"a tool that is gone", "get_forecast", "get_weather"}},
			files: `
-- server.py --
import json, sys
schema = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
methods = {"initialize": lambda p: {"protocolVersion": p["protocolVersion"], "capabilities": {"tools": {}}, "serverInfo": {"name": "weather", "version": "1"}},
    "tools/list": lambda p: {"tools": [{"name": "get_forecast", "inputSchema": schema}]},
    "tools/call": lambda p: {"content": [{"type": "text", "text": f"Sunny in {p['arguments']['city']}, 21 degrees"}]}}
for m in map(json.loads, sys.stdin):
    if m["method"] in methods: print(json.dumps({"jsonrpc": "2.0", "id": m["id"], "result": methods[m["method"]](m.get("params"))}), flush=True)
`,
		},
		"database": { // and a Dockerfile of its own, which copies the certificates of this network
			file: "server.js", comment: "//", database: true,
			breaks: []breakage{{"a wrong answer", "SELECT name, amount", "SELECT part_id, amount"}, {"an exception", "db.query(sql", `db.query(sql + " FOR NOBODY"`}, {"a tool that is gone", "get_part", "find_part"}},
			files: `
-- ca.pem --
-- package.json --
{"name": "stock", "version": "1.0.0", "private": true, "type": "module", "dependencies": {"pg": "8.16.3"}}
-- Dockerfile --
FROM node:24-bookworm-slim
WORKDIR /app
COPY ca.pem package.json ./
ENV NODE_EXTRA_CA_CERTS=/app/ca.pem
RUN npm install
COPY server.js ./
CMD ["node", "server.js"]
-- server.js --
import { createInterface } from "node:readline";
import pg from "pg";

const db = new pg.Client(process.env.DATABASE_URL);
await db.connect();
await db.query("CREATE TABLE IF NOT EXISTS part (part_id text PRIMARY KEY, name text, amount int)");
await db.query("INSERT INTO part VALUES ('BRG-6204', 'Ball bearing', 17) ON CONFLICT DO NOTHING");

const text = { type: "string" };
const tools = {
  list_parts: ["Lists the parts in stock.", {}, "SELECT part_id, name FROM part"],
  get_part: ["Finds a part.", { part_id: text }, "SELECT name, amount FROM part WHERE part_id = $1"],
  take_part: ["Takes some of a part out of stock.", { part_id: text, amount: { type: "integer" } }, "UPDATE part SET amount = amount - $2 WHERE part_id = $1 RETURNING name, amount"],
};
const methods = {
  initialize: ({ protocolVersion }) => ({ protocolVersion, capabilities: { tools: {} }, serverInfo: { name: "stock", version: "1.0.0" } }),
  "tools/list": () => ({ tools: Object.entries(tools).map(([name, [description, properties]]) => ({ name, description, inputSchema: { type: "object", properties, required: Object.keys(properties) } })) }),
  "tools/call": async ({ name, arguments: given }) => {
    const [, properties, sql] = tools[name];
    const { rows } = await db.query(sql, Object.keys(properties).map((key) => given[key]));
    return { content: [{ type: "text", text: JSON.stringify(rows) }] };
  },
};
for await (const line of createInterface({ input: process.stdin })) {
  const { id, method, params } = JSON.parse(line);
  if (id === undefined) continue;
  const answer = { jsonrpc: "2.0", id };
  try { answer.result = await methods[method](params); } catch (e) { answer.error = { code: -32603, message: e.message }; }
  console.log(JSON.stringify(answer));
}
`,
		},
	}
}

// TestImages_FirstHour does what people do first, with nothing but a server of their own: a first
// verdict, a tool that breaks in several ways, a look at why, a mend. With -v it prints what that takes.
func TestImages_FirstHour(t *testing.T) {
	for name, its := range beginners() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newProject(t, its.files, images.DefaultNPM, images.DefaultGo, images.DefaultPyPI, "waza-examples/postgres")
			p.dir = p.path(its.dir)
			p.write(its.file, p.read(its.file)+its.comment+" "+p.name+"\n") // so that nobody else has built it
			var built []string
			t.Cleanup(func() {
				for _, tag := range built {
					dockertest.DropImage(t, tag)
				}
			})
			table := fmt.Sprintf("%-60s %8s  %s\n", "COMMAND OR EDIT", "SECONDS", "VERDICT")
			change := func(file, what, from, to string) {
				before := p.read(file)
				if after := regexp.MustCompile(from).ReplaceAllString(before, to); after != before {
					p.write(file, after)
				} else {
					t.Fatalf("%s has no %q", file, from)
				}
				table += fmt.Sprintf("edit %s: %s\n", file, what)
			}
			edit := func(what, from, to string) {
				change(its.file, what, regexp.QuoteMeta(from), strings.ReplaceAll(to, "$", "$$"))
			}
			waza := func(code int, want string, command ...string) string {
				begun := time.Now()
				c := p.start(command...).wait(code)
				said := c.stdout.String() + c.stderr.String()
				if !strings.Contains(said, want) {
					t.Errorf("waza %q: no %q in\n%s", command, want, said)
				}
				verdict := regexp.MustCompile(`(?m)^(PASSED|FAILED): .*`).FindString(said)
				table += fmt.Sprintf("%-60s %8.1f  %s\n", "waza "+strings.Replace(strings.Join(command, " "), "--name "+p.name+" ", "", 1), time.Since(begun).Seconds(), verdict)
				return said
			}
			init := append([]string{"init", "--name", p.name}, its.init...)
			if its.database {
				if ca, err := os.ReadFile(os.Getenv("NODE_EXTRA_CA_CERTS")); err == nil {
					p.write("ca.pem", string(ca))
				}
				waza(exitInfra, "complete what eval.yaml has after CHANGE ME, then add its tasks with waza init eval.yaml", init...)
				change("eval.yaml", "the database is no comment", `(?m)^( +)# (env|services|  )`, "$1$2")
				change("eval.yaml", "the image that is here", "image: postgres:17", "image: waza-examples/postgres")
				init = []string{"init", "eval.yaml"}
			}
			if said := waza(exitOK, "PASSED: ", init...); !its.database && builds(said, "the source") != 1 {
				t.Errorf("it is not built once: %s", said)
			}
			waza(exitOK, "nothing is wrong", "check")
			mark := func() {
				dry := p.start("run", "--isolate", "--dry-run", "eval.yaml").wait(exitOK).stdout.String()
				built = append(built, regexp.MustCompile(images.SourceRepository+":[0-9a-f]+").FindString(dry))
			}
			mark()
			for i, b := range its.breaks {
				edit(b.what, b.from, b.to)
				mark()
				waza(exitFailed, "FAILED: ", "run", "eval.yaml")
				if i == 0 {
					waza(exitOK, "fail", "show", "latest")
				}
				edit("mended", b.to, b.from)
			}
			waza(exitOK, "PASSED: ", "rerun", "latest", "eval.yaml", "--failed")
			t.Logf("\n%s", table)
		})
	}
}
