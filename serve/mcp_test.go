package serve

import (
	"context"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/mark3labs/mcp-go/client"
	"github.com/mark3labs/mcp-go/client/transport"
	"github.com/mark3labs/mcp-go/mcp"

	"github.com/waza-isolate/waza/internal/runtest"
)

// ask starts the MCP server of a directory, and returns what calls one of its tools.
func ask(t *testing.T, dir string) (call func(tool string, arguments map[string]any) (said string, failed bool), c *client.Client) {
	t.Helper()
	toServer, fromClient := io.Pipe()
	toClient, fromServer := io.Pipe()
	ended := make(chan error, 1)
	go func() { ended <- ServeMCP(context.WithoutCancel(t.Context()), dir, toServer, fromServer, "test") }()
	c = client.NewClient(transport.NewIO(toClient, fromClient, io.NopCloser(strings.NewReader(""))))
	if err := c.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = fromClient.Close()
		if err := <-ended; err != nil {
			t.Error(err)
		}
		_ = fromServer.Close()
		_ = c.Close()
	})
	if _, err := c.Initialize(t.Context(), mcp.InitializeRequest{}); err != nil {
		t.Fatal(err)
	}
	return func(tool string, arguments map[string]any) (string, bool) {
		t.Helper()
		request := mcp.CallToolRequest{}
		request.Params.Name, request.Params.Arguments = tool, arguments
		result, err := c.CallTool(t.Context(), request)
		if err != nil {
			t.Fatal(err)
		}
		return result.Content[0].(mcp.TextContent).Text, result.IsError
	}, c
}

func TestMCP(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for _, id := range []string{"a", "b"} {
		run := runtest.New(t, filepath.Join(dir, id), "shop")
		run.Trial("price", func(trial *runtest.Trial) {
			trial.Serve("shop", runtest.Tool{Name: "find"})
			trial.Call("shop", "find", map[string]any{"sku": "X-1"}, "costs 5")
			trial.Info.FinalOutput = "It costs 6."
			trial.Grade("right", "text", `{"contains": ["costs 5"]}`)
		})
		run.End()
	}
	call, c := ask(t, dir)
	tools, err := c.ListTools(t.Context(), mcp.ListToolsRequest{})
	if err != nil || len(tools.Tools) != 4 {
		t.Fatal(tools, err)
	}
	for _, tool := range tools.Tools {
		if hint := tool.Annotations.ReadOnlyHint; hint == nil || !*hint {
			t.Errorf("%s is not read-only", tool.Name)
		}
	}
	for _, test := range []struct {
		tool      string
		arguments map[string]any
		want      []string
		fails     bool
	}{
		{tool: "list_runs", want: []string{"2 runs", `"id":"a"`, `"id":"b"`, `"verdict":"failed"`}},
		{tool: "explain_failure", arguments: map[string]any{"run": "a"}, want: []string{"run a: failed", "task price, trial 1: fail", "right: "}},
		{tool: "explain_failure", arguments: map[string]any{"run": "latest", "task": "price"}, want: []string{"failed"}},
		{tool: "explain_failure", arguments: map[string]any{"run": "latest", "task": "other"}, want: []string{"Not found"}, fails: true},
		{tool: "show_trial", arguments: map[string]any{"run": "a", "task": "price", "trial": 1.5}, want: []string{"trial"}, fails: true},
		{tool: "list_runs", arguments: map[string]any{"offset": "x"}, want: []string{"offset"}, fails: true},
		{tool: "list_runs", arguments: map[string]any{"page": 1}, want: []string{"page"}, fails: true},
		{tool: "show_trial", arguments: map[string]any{"run": "a", "task": "price"}, want: []string{"price/1  fail", "costs 5", "It costs 6."}},
		{tool: "compare_runs", arguments: map[string]any{"runs": []string{"a", "b"}}, want: []string{"price"}},
		{tool: "compare_runs", arguments: map[string]any{"runs": []string{"a"}}, want: []string{"runs"}, fails: true},
		{tool: "show_trial", arguments: map[string]any{"run": "a", "task": "price", "trial": 2}, want: []string{"Not found"}, fails: true},
		{tool: "explain_failure", arguments: map[string]any{"run": "../" + filepath.Base(dir) + "/a"}, want: []string{"Not found"}, fails: true},
		{tool: "explain_failure", want: []string{"run"}, fails: true},
	} {
		said, failed := call(test.tool, test.arguments)
		if failed != test.fails {
			t.Errorf("%s %v: failed %v\n%s", test.tool, test.arguments, failed, said)
		}
		for _, want := range test.want {
			if !strings.Contains(said, want) {
				t.Errorf("%s %v does not say %q:\n%s", test.tool, test.arguments, want, said)
			}
		}
	}
}

// What strangers wrote is between marks that it cannot write itself, harmless and bounded, and
// nothing outside of the directory is read.
func TestMCPHostile(t *testing.T) {
	t.Parallel()
	dir, outside := t.TempDir(), t.TempDir()
	run := runtest.New(t, filepath.Join(dir, "hostile"), "hostile")
	run.Trial("hostile", func(trial *runtest.Trial) { trial.Attack() })
	run.End()
	other := runtest.New(t, filepath.Join(outside, "other"), "other")
	other.Trial("task", func(*runtest.Trial) {})
	other.End()
	if err := os.Symlink(filepath.Join(outside, "other"), filepath.Join(dir, "link")); err != nil {
		t.Fatal(err)
	}
	call, _ := ask(t, dir)
	if said, failed := call("show_trial", map[string]any{"run": "link", "task": "task"}); !failed {
		t.Errorf("a link is followed:\n%s", said)
	}
	marks := regexp.MustCompile(`(?s)\A` + regexp.QuoteMeta(quoted) + `<recorded ([A-Z2-7]{26})>\n(.*)\n</recorded ([A-Z2-7]{26})>(\n\d+ bytes follow; ask again with offset \d+\.)?\z`)
	for tool, arguments := range map[string]map[string]any{
		"list_runs": nil, "explain_failure": {"run": "hostile"}, "show_trial": {"run": "hostile", "task": "hostile"}, "compare_runs": {"runs": []string{"hostile", "hostile"}},
	} {
		for range 20 {
			said, failed := call(tool, arguments)
			parts := marks.FindStringSubmatch(said)
			if failed || parts == nil || parts[1] != parts[3] || len(said) > maxAnswer+1000 || strings.ContainsAny(parts[2], "\x1b\u202e\x00") {
				t.Errorf("%s, %v: %.2000q", tool, failed, said)
				break
			}
			if parts[4] == "" {
				break
			}
			again := map[string]any{"offset": offsetOf(parts[4])}
			for key, value := range arguments {
				again[key] = value
			}
			arguments = again
		}
	}
}

func offsetOf(next string) (offset int) {
	for _, c := range next[strings.LastIndex(next, " ")+1:] {
		if c >= '0' && c <= '9' {
			offset = offset*10 + int(c-'0')
		}
	}
	return offset
}
