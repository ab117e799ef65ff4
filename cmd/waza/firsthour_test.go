package main

import (
	"fmt"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/waza-isolate/waza/images"
	"github.com/waza-isolate/waza/internal/dockertest"
)

// beginner is somebody with a server: its files, the directory in which they type, the file that they edit there, how a
// comment begins in it, and what they give to init.
type beginner struct {
	files, dir, file, comment string
	init                      []string
	breaks                    []breakage
}

// breakage is an edit after which a tool is broken.
type breakage struct{ what, from, to string }

// beginners returns what people have who have a server and nothing else. The servers in Go and Python have no SDK; the
// one in Python ignores methods that it does not know, as short servers do.
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
			breaks: []breakage{{"a wrong answer", "* 1.8", "* 1.9"}, {"an exception", "return { content", `throw new Error("no scale"); return { content`}, {"a tool that is gone", `"to_fahrenheit"`, `"to_kelvin"`}},
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
			breaks: []breakage{{"a wrong answer", "d letters", "d characters"}, {"an exception", `result["initialize"] =`, `if m.Method == "tools/call" { panic("no letters") }; result["initialize"] =`}, {"a tool that is gone", "count_letters", "count_runes"}},
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
	}
}

// TestImages_FirstHour does what people do first, with nothing but a server of their own: a first
// verdict, a tool that breaks in three ways, a look at why, a mend. With -v it prints what that takes.
func TestImages_FirstHour(t *testing.T) {
	for name, its := range beginners() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newProject(t, its.files, images.DefaultNPM, images.DefaultGo, images.DefaultPyPI)
			p.dir = p.path(its.dir)
			p.write(its.file, p.read(its.file)+its.comment+" "+p.name+"\n") // so that nobody else has built it
			var built []string
			t.Cleanup(func() {
				for _, tag := range built {
					dockertest.DropImage(t, tag)
				}
			})
			table := fmt.Sprintf("%-60s %8s  %s\n", "COMMAND OR EDIT", "SECONDS", "VERDICT")
			edit := func(what, from, to string) {
				before := p.read(its.file)
				if after := strings.ReplaceAll(before, from, to); after != before {
					p.write(its.file, after)
				} else {
					t.Fatalf("%s has no %q", its.file, from)
				}
				table += fmt.Sprintf("edit %s: %s\n", its.file, what)
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
			if said := waza(exitOK, "PASSED: ", append([]string{"init", "--name", p.name}, its.init...)...); builds(said, "the source") != 1 {
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
