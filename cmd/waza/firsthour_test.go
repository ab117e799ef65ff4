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

// beginner is somebody with a server: its files, of which the last is edited, how a comment begins
// there, the command that starts it, and what it says, rightly and wrongly.
type beginner struct{ files, file, comment, command, right, wrong string }

// beginners returns what people have who have a server and nothing else: a file or two, and the
// command that starts it. The server in Python ignores methods that it does not know, as short
// servers do.
func beginners() map[string]beginner {
	return map[string]beginner{
		"node": {file: "server.js", comment: "//", command: "node server.js", right: "The sum is", wrong: "The result is", files: `
-- server.js --
const inputSchema = { type: "object", properties: { a: { type: "number" }, b: { type: "number" } }, required: ["a", "b"] };
const methods = { initialize: (p) => ({ protocolVersion: p.protocolVersion, capabilities: { tools: {} }, serverInfo: { name: "sums", version: "1" } }),
  "tools/list": () => ({ tools: [{ name: "add", inputSchema }] }), "tools/call": ({ arguments: { a, b } }) => ({ content: [{ type: "text", text: "The sum is " + (a + b) }] }) };
require("readline").createInterface({ input: process.stdin }).on("line", (line) => { const { id, method, params } = JSON.parse(line);
  if (id !== undefined) console.log(JSON.stringify({ jsonrpc: "2.0", id, ...(methods[method] ? { result: methods[method](params) } : { error: { code: -32601, message: "what?" } }) })); });
`},
		"go": {file: "main.go", comment: "//", command: "go run .", right: "d letters", wrong: "d characters", files: `
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
`},
		"python": {file: "server.py", comment: "#", command: "python3 server.py", right: "Sunny", wrong: "Rainy", files: `
-- server.py --
import json, sys
schema = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
methods = {"initialize": lambda p: {"protocolVersion": p["protocolVersion"], "capabilities": {"tools": {}}, "serverInfo": {"name": "weather", "version": "1"}},
    "tools/list": lambda p: {"tools": [{"name": "get_forecast", "inputSchema": schema}]},
    "tools/call": lambda p: {"content": [{"type": "text", "text": f"Sunny in {p['arguments']['city']}, 21 degrees"}]}}
for m in map(json.loads, sys.stdin):
    if m["method"] in methods: print(json.dumps({"jsonrpc": "2.0", "id": m["id"], "result": methods[m["method"]](m.get("params"))}), flush=True)
`},
	}
}

// TestImages_FirstHour does what people do first, with nothing but a server of their own: a first
// verdict, a server that breaks, a look at why, a mend. With -v it prints what that takes.
func TestImages_FirstHour(t *testing.T) {
	for name, its := range beginners() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newProject(t, its.files, images.DefaultNPM, images.DefaultGo, images.DefaultPyPI)
			p.write(its.file, p.read(its.file)+its.comment+" "+p.name+"\n") // so that nobody else has built it
			var built []string
			t.Cleanup(func() {
				for _, tag := range built {
					dockertest.DropImage(t, tag)
				}
			})
			table := fmt.Sprintf("%-60s %8s  %s\n", "COMMAND OR EDIT", "SECONDS", "VERDICT")
			edit := func(from, to string) {
				p.write(its.file, strings.Replace(p.read(its.file), from, to, 1))
				table += fmt.Sprintf("edit %s: %q becomes %q\n", its.file, from, to)
			}
			waza := func(code int, command, want string) string {
				begun := time.Now()
				c := p.start(strings.Fields(command)...).wait(code)
				said := c.stdout.String() + c.stderr.String()
				if !strings.Contains(said, want) {
					t.Errorf("waza %s: no %q in\n%s", command, want, said)
				}
				verdict := regexp.MustCompile(`(?m)^(PASSED|FAILED): .*`).FindString(said)
				table += fmt.Sprintf("%-60s %8.1f  %s\n", "waza "+strings.Replace(command, "--name "+p.name+" ", "", 1), time.Since(begun).Seconds(), verdict)
				return said
			}
			if said := waza(exitOK, "init --name "+p.name+" -- "+its.command, "PASSED: "); builds(said, "the source") != 1 {
				t.Errorf("it is not built once: %s", said)
			}
			waza(exitOK, "check", "nothing is wrong")
			mark := func() {
				dry := p.start("run", "--isolate", "--dry-run", "eval.yaml").wait(exitOK).stdout.String()
				built = append(built, regexp.MustCompile(images.SourceRepository+":[0-9a-f]+").FindString(dry))
			}
			mark()
			edit(its.right, its.wrong)
			mark()
			waza(exitFailed, "run eval.yaml", "FAILED: ")
			waza(exitOK, "show latest", "fail")
			edit(its.wrong, its.right)
			waza(exitOK, "rerun latest --failed", "PASSED: ")
			t.Logf("\n%s", table)
		})
	}
}
