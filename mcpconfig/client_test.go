package mcpconfig_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/waza-isolate/waza/internal/golden"
	"github.com/waza-isolate/waza/internal/strictyaml"
	"github.com/waza-isolate/waza/mcpconfig"
)

// clientFiles are the files of testdata/clients, by path.
func clientFiles(t testing.TB) map[string][]byte {
	t.Helper()
	paths, err := filepath.Glob("testdata/clients/*.json*")
	if err != nil || len(paths) < 14 {
		t.Fatalf("%d files, %v", len(paths), err)
	}
	files := map[string][]byte{}
	for _, path := range paths {
		if files[path], err = os.ReadFile(path); err != nil {
			t.Fatal(err)
		}
	}
	return files
}

// reported is a client's file as the goldens have it.
func reported(t *testing.T, f *mcpconfig.ClientFile) []byte {
	t.Helper()
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	if err := enc.Encode(f.Servers); err != nil {
		t.Fatal(err)
	}
	for _, n := range f.Notes {
		fmt.Fprintf(&b, "%d:%d: %s\n", n.Position.Line, n.Position.Column, n.Text)
	}
	for _, s := range f.Secrets {
		fmt.Fprintf(&b, "secret: %s\n", s)
	}
	return b.Bytes()
}

func TestReadClient(t *testing.T) {
	for path, data := range clientFiles(t) {
		t.Run(filepath.Base(path), func(t *testing.T) {
			f, err := mcpconfig.ReadClient(path, data)
			if err != nil {
				t.Fatal(err)
			}
			if f.Name != path || len(f.SHA256) != 64 {
				t.Errorf("name %q, digest %q", f.Name, f.SHA256)
			}
			for name, s := range f.Servers {
				if err := mcpconfig.Validate(name, *s); err != nil {
					t.Error(err)
				}
			}
			file := strings.TrimSuffix(path, filepath.Ext(path)) + ".golden"
			got := reported(t, f)
			golden.Check(t, file, string(got))
		})
	}
}

// one is a file with a server x of some keys.
func one(keys string) string { return `{"mcpServers": {"x": {` + keys + `}}}` }

func TestReadClientErrors(t *testing.T) {
	const shapes = "there are no MCP servers here; a client's file has them under mcpServers (Claude, Cursor, Copilot CLI, Gemini CLI, Windsurf, Cline, Roo Code), servers (VS Code), mcp (OpenCode) or context_servers (Zed), and this one has "
	for name, tc := range map[string]struct{ in, want string }{
		"empty":               {"", "f:1:1: the file is empty"},
		"a list":              {`[]`, `f:1:1: the file must be a mapping, not a list`},
		"no keys":             {`{}`, "f:1:1: " + shapes + "no keys"},
		"wrong shape":         {`{"version": 1, "mcpServer": {}}`, "f:1:1: " + shapes + `only "version", "mcpServer"`},
		"bare":                {`{"a": {"command": "b"}}`, "f:1:1: " + shapes + "servers without a key around them; put them under mcpServers"},
		"two shapes":          {`{"servers": {}, "mcpServers": {}}`, "f:1:17: the file holds servers under servers and under mcpServers; keep one of them"},
		"two levels":          {`{"mcp": {"servers": {"a": {"command": "a"}}, "b": {"command": "b"}}}`, `f:1:46: server "b" is outside mcp.servers; move it in there`},
		"TOML":                {"# codex\n[mcp_servers.x]\ncommand = \"y\"", `f: this is TOML, as Codex has it, and only JSON is read; write the servers as {"mcpServers": {"NAME": {"command": "…", "args": ["…"], "env": {"KEY": "…"}}}}`},
		"TOML without tables": {"model = \"o\"", `f: this is TOML, as Codex has it, and only JSON is read; write the servers as {"mcpServers": {"NAME": {"command": "…", "args": ["…"], "env": {"KEY": "…"}}}}`},
		"no servers":          {`{"mcpServers": {}}`, "f:1:2: mcpServers holds no server that is enabled; add one, or enable it"},
		"all disabled":        {one(`"command": "a", "disabled": true`), "f:1:2: mcpServers holds no server that is enabled; add one, or enable it"},
		"servers no mapping":  {`{"servers": ["a"]}`, `f:1:2: servers must be a mapping, not a list`},
		"server no mapping":   {`{"servers": {"a": "hunter2"}}`, `f:1:19: servers.a must be a mapping, not a string`},
		"null":                {`{"servers": {"a": null}}`, `f:1:2: servers holds no server that is enabled; add one, or enable it`},
		"Claude's projects":   {`{"projects": {"/home/me": {"mcpServers": {"a": {"command": "b"}}}}}`, "f:1:1: " + shapes + `them under "projects./home/me.mcpServers"; move those that are wanted into mcpServers at the top`},
		"unknown key":         {"{\"mcpServers\": {\n\t\"x\": {\"command\": \"a\",\n\t\t\"argz\": []}}}", `f:3:3: unknown key "argz"; did you mean "args"?`},
		"duplicate key":       {one(`"command": "a", "command": "b"`), `f:1:39: duplicate key "command"; it is already on line 1, so remove one of them`},
		"duplicate server":    {"{\"servers\": {\"a\": {\"command\": \"a\"},\n \"a\": {\"command\": \"b\"}}}", `f:2:2: duplicate key "a"; it is already on line 1, so remove one of them`},
		"same host":           {`{"servers": {"my_a": {"command": "a"}, "My.A": {"command": "b"}}}`, `f:1:40: servers "my_a" and "My.A" would both have the host name my-a; rename one`},
		"no host":             {`{"servers": {"日本": {"command": "a"}}}`, `f:1:14: no host name can be made of the server name "日本"; rename it with letters and digits`},
		"unknown type":        {one(`"type": "streamablhttp", "url": "https://a.example"`), `f:1:31: server "x": unknown type "streamablhttp"; did you mean "streamable-http"?`},
		"two urls":            {one(`"url": "https://a.example", "httpUrl": "https://b.example"`), `f:1:51: url and httpUrl are the same here; give one of them`},
		"command":             {one(`"command": {"path": "a"}`), `f:1:23: mcpServers.x.command: it must be a program, or a list of a program and its arguments`},
		"command with null":   {one(`"command": ["a", null]`), `f:1:23: mcpServers.x.command: it must be a program, or a list of a program and its arguments`},
		"env":                 {one(`"command": "a", "env": "TOKEN=hunter2"`), `f:1:46: mcpServers.x.env must be a mapping, not a string`},
		"excludeTools":        {one(`"command": "a", "excludeTools": ["rm"]`), `f:1:39: server "x": excludeTools: waza knows only tools to show; list those under tools`},
		"no tools":            {one(`"command": "a", "tools": []`), `f:1:39: server "x": tools is empty, which hides every tool; list tools, or remove it to show all`},
		"envFile":             {one(`"command": "a", "envFile": ".env"`), `f:1:39: server "x": envFile: the file is not read; put its variables into env, secret ones as ${NAME}`},
		"oauth":               {one(`"url": "https://a.example", "oauth": {"clientId": "a"}`), `f:1:51: server "x": oauth: waza does not log in; give a token in headers, such as "Authorization": "Bearer ${TOKEN}"`},
		"workspaceFolder":     {one(`"command": "a", "args": ["${workspaceFolder}/b"]`), `f:1:48: ${workspaceFolder} is a place on the client's machine, which no server's container has; write a path in the container`},
		"config variable":     {one(`"command": "${config:a.b}"`), `f:1:34: variables of the kind ${config:…} are the client's own; write ${NAME} and set the variable NAME`},
		"odd env":             {one(`"command": "${env:A B}"`), `f:1:34: "A B" is not a variable's name`},
		"odd input":           {one(`"command": "${input:7}"`), `f:1:34: ${input:…} asks the user, which is not possible here, and cannot be the name of a variable; write ${NAME} and set the variable NAME`},
		"inputs alike":        {one(`"command": "${input:a-b}", "cwd": "${input:a.b}"`), `f:1:57: inputs "a-b" and "a.b" would both be the variable A_B; rename one`},
		"input without id":    {`{"inputs": [{"type": "promptString"}], "servers": {"a": {"command": "b"}}}`, `f:1:13: an input needs an id, for use as ${input:ID}`},
		"file variable":       {`{"mcp": {"a": {"type": "local", "command": ["b"], "environment": {"K": "{file:~/key}"}}}}`, `f:1:72: {file:…} is not read; write {env:NAME} and set the variable NAME to what the file holds`},
		"no JSON":             {"{\n  'a': 1}", `f:2:3: this is not valid JSON: a key in double quotes is wanted here`},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := mcpconfig.ReadClient("f", []byte(tc.in))
			var all strictyaml.Errors
			if !errors.As(err, &all) || err.Error() != tc.want {
				t.Errorf("got  %v\nwant %s", err, tc.want)
			}
			if err != nil && strings.Contains(err.Error(), "hunter2") {
				t.Error("the error holds a secret")
			}
		})
	}
}

// What a client's command stands for is the same on every system.
func TestClientCommands(t *testing.T) {
	for in, want := range map[string]string{
		`"cmd", "args": ["/c", "npx", "-y", "p"]`:                      "npx·-y·p",
		`"cmd.exe", "args": ["/D", "/C", "npx.cmd -y p"]`:              "npx·-y·p",
		`"C:\\Windows\\System32\\cmd.exe", "args": ["/c", "uvx", "p"]`: "uvx·p",
		`"cmd /c npx -y p", "args": ["a b"]`:                           "npx·-y·p·a b",
		`["cmd", "/c", "node", "x.js"]`:                                "node·x.js",
		`"NPX.CMD", "args": ["p"]`:                                     "npx·p",
		`"C:\\Program Files\\nodejs\\npx.cmd", "args": ["p"]`:          "npx·p",
		`"\"C:/Program Files/nodejs/npx.cmd\" -y p"`:                   "npx·-y·p",
		`"C:\\nodejs\\npx.cmd -y p"`:                                   "npx·-y·p",
		`"uvx.exe", "args": ["p"]`:                                     "uvx·p",
		`"npx -y p --root='a b'"`:                                      "npx·-y·p·--root=a b",
		`"npx -y p ${A:-b c}"`:                                         "npx·-y·p·${A:-b c}",
		`"python server.py"`:                                           "python·server.py",
		`"D:\\tools\\mine.exe"`:                                        "mine",
		`".venv\\Scripts\\python.exe"`:                                 "python",
		// These stay as they are.
		`"npx"`:                                  "npx",
		`"/usr/bin/npx", "args": ["p"]`:          "/usr/bin/npx·p",
		`"/opt/My Server/run", "args": ["a"]`:    "/opt/My Server/run·a",
		`"a | b"`:                                "a | b",
		`"cmd"`:                                  "cmd",
		`"cmd", "args": ["/c"]`:                  "cmd·/c",
		`"cmd", "args": ["run", "/c", "x"]`:      "cmd·run·/c·x",
		`"sh", "args": ["-c", "exec C:\\x.exe"]`: `sh·-c·exec C:\x.exe`,
		`" "`:                                    " ",
	} {
		f, err := mcpconfig.ReadClient("f", []byte(one(`"command": `+in)))
		if err != nil {
			t.Errorf("%s: %v", in, err)
			continue
		}
		if got := strings.Join(append([]string{f.Servers["x"].Command}, f.Servers["x"].Args...), "·"); got != want {
			t.Errorf("%s is %q, want %q", in, got, want)
		}
	}
}

// Variables are those that the client has; what looks like one and is not has a note.
func TestClientVariables(t *testing.T) {
	const gemini = `, "trust": true`
	for in, want := range map[string][2]string{ // the value, and a part of its note
		`"args": ["--host=$HOST"]` + gemini:                       {"--host=${HOST}", "$HOST is read as ${HOST}"},
		`"env": {"A": "Bearer $TOKEN"}, "type": "local"`:          {"Bearer ${TOKEN}", "$TOKEN is read as"},
		`"env": {"A": "$A_B/$C"}, "tools": ["*"]`:                 {"${A_B}/${C}", "$C is read as"},
		`"env": {"A": "pa$word"}` + gemini:                        {"pa$word", "is taken literally"},
		`"env": {"A": "$$NAME $1 $ a$"}` + gemini:                 {"$$NAME $1 $ a$", ""},
		`"env": {"A": "Bearer $TOKEN"}`:                           {"Bearer $TOKEN", "a $ with a name behind it is taken literally"},
		`"args": ["$HOME/x"]`:                                     {"$HOME/x", "is taken literally"},
		`"env": {"A": "$TOKEN"}`:                                  {"${TOKEN}", "$TOKEN is read as ${TOKEN}"},
		`"args": ["%APPDATA%\\x"]`:                                {`%APPDATA%\x`, "looks like a variable"},
		`"args": ["$env:TOKEN"]`:                                  {"$env:TOKEN", "looks like a variable"},
		`"args": ["{env:TOKEN}"]`:                                 {"{env:TOKEN}", "looks like a variable"},
		`"args": ["${env:TOKEN}%20b"]`:                            {"${TOKEN}%20b", ""},
		`"args": null, "env": {"B": null, "A": "b"}, "url": null`: {"b", ""},
	} {
		f, err := mcpconfig.ReadClient("f", []byte(one(`"command": "a", `+in)))
		if err != nil {
			t.Errorf("%s: %v", in, err)
			continue
		}
		s, notes := f.Servers["x"], fmt.Sprint(f.Notes)
		if got := strings.Join(s.Args, " ") + s.Env["A"]; got != want[0] || !strings.Contains(notes, want[1]) || want[1] == "" && len(f.Notes) > strings.Count(in, "trust") {
			t.Errorf("%s is %q, notes %s; want %q", in, got, notes, want)
		}
	}
}

// Servers that are not taken are named.
func TestClientNested(t *testing.T) {
	f, err := mcpconfig.ReadClient("f", []byte(`{"n": 1, "mcpServers": {"a": {"command": "b"}}, "enabledMcpjsonServers": ["x"],
"projects": {"/p": {"mcpServers": {"mem": {"command": "npx"}}, "history": [1]}, "/q": {"mcpServers": {"x": {"url": "https://x.example"}}, "mcpContextUris": []}, "/r": {"mcpServers": {}}},
"hooks": {"Stop": [{"type": "command", "command": "true"}]}}`))
	if err != nil || len(f.Servers) != 1 {
		t.Fatal(f, err)
	}
	var notes []string
	for _, n := range f.Notes {
		notes = append(notes, n.Text)
	}
	want := []string{
		`left out, since it is not about servers: "n", "hooks"`,
		`enabledMcpjsonServers is left out: it may choose among the client's servers, and here all of mcpServers are taken`,
		`servers under "projects./p.mcpServers" are left out: "mem"; to take one, move it into mcpServers`,
		`servers under "projects./q.mcpServers" are left out: "x"; to take one, move it into mcpServers`,
	}
	if !slices.Equal(notes, want) {
		t.Errorf("%q", notes)
	}
}

// Problems of a server are reported where its file has it.
func TestClientPlace(t *testing.T) {
	f, err := mcpconfig.ReadClient("f", []byte(`{"mcp": {"My_A": {"command": ["b", "c"], "environment": {"K": "v"}}}}`))
	if err != nil {
		t.Fatal(err)
	}
	for want, at := range map[string][3]string{
		"mcp.My_A":               {"My_A", "", ""},
		"mcp.My_A.environment.K": {"My_A", "env", "K"},
		"mcp.My_A.environment":   {"My_A", "env", "L"},
		"mcp.My_A.command[1]":    {"My_A", "args", "0"},
	} {
		if got := f.Place(at[0], at[1], at[2]).String(); got != want {
			t.Errorf("%q is at %s, want %s", at, got, want)
		}
	}
}

func FuzzReadClient(f *testing.F) {
	for _, data := range clientFiles(f) {
		f.Add(data)
	}
	for _, seed := range []string{one(`"command": ["${input:a}", "${", "$${env:A}"]`), `{"mcp": {"servers": 1}}`, `{"mcp": []}`, "[a]\n"} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		file, err := mcpconfig.ReadClient("f", data)
		if err != nil {
			if all := (strictyaml.Errors{}); !errors.As(err, &all) {
				t.Errorf("%T: %v", err, err)
			}
			return
		}
		if len(file.Servers) == 0 {
			t.Error("no servers and no error")
		}
		for name, s := range file.Servers {
			if s == nil || len(name) < 64 && mcpconfig.CheckName(name) != nil && !strings.Contains(mcpconfig.CheckName(name).Error(), "reserved") {
				t.Errorf("server %q: %v", name, s)
			}
			if s.Type != "" && s.Type != "stdio" && s.Type != "http" && s.Type != "sse" {
				t.Errorf("type %q", s.Type)
			}
			file.Place(name, "env", "K")
		}
	})
}

// A client's file supports every server key of an eval.
func TestClientTakesEveryField(t *testing.T) {
	for _, field := range reflect.VisibleFields(reflect.TypeFor[mcpconfig.Server]()) {
		if field.Anonymous {
			continue
		}
		key, _, _ := strings.Cut(field.Tag.Get("json"), ",")
		_, err := mcpconfig.ReadClient("f", []byte(one(fmt.Sprintf("%q: [[0]]", key))))
		if err == nil || !strings.Contains(err.Error(), key) || strings.Contains(err.Error(), "unknown key") {
			t.Errorf("%s: %v", key, err)
		}
	}
}
