package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/mark3labs/mcp-go/mcp"
	"github.com/mark3labs/mcp-go/server"

	"github.com/waza-isolate/waza/sandbox/probe"
	"github.com/waza-isolate/waza/test/attacks/part"
)

// sayingActs returns the acts that output text with special meaning for terminals, CI
// systems, HTML and Markdown, in all places that accept text.
func sayingActs() map[string]act {
	return map[string]act{
		"terminal-title":  {agent: sayToPerson, server: serveSayings, grader: sayAsGrader},
		"terminal-stderr": {tool: sayOnStderr},
		"markdown-break":  {server: sayLastWords},
	}
}

// sayings returns the texts as a list.
func sayings() []string {
	all := part.Sayings()
	maps.Copy(all, part.Markups())
	return append(slices.Sorted(maps.Values(all)), part.Unprintable)
}

// sayToPerson outputs the texts on stdout and stderr, in a transcript, as DNS names, as
// arguments and as files.
func sayToPerson(ctx context.Context) []part.Word {
	said := part.Said()
	for _, event := range []map[string]any{
		{"type": "assistant.message", "content": said},
		{"type": "tool.execution_start", "tool_call_id": said, "tool_name": said, "arguments": map[string]any{said: said}},
		{"type": "tool.execution_complete", "tool_call_id": said, "success": false, "tool_result": said},
		{"type": "tool.execution_start", "tool_call_id": "2", "tool_name": "mcp__evil__" + said, "arguments": said},
	} {
		line, _ := json.Marshal(event) // plain data
		fmt.Println(string(line))
	}
	for i, text := range sayings() {
		label := strings.ReplaceAll(text[:min(len(text), 60)], ".", " ")
		_, _, _ = probe.Lookup(ctx, "udp", "127.0.0.1", label) // recorded whatever the response is
		file := filepath.Join(workspace, fmt.Sprint(i), strings.ReplaceAll(text[:min(len(text), 200)], "\x00", ""))
		_ = os.MkdirAll(filepath.Dir(file), 0o700)
		_ = os.WriteFile(file, []byte(said), 0o600)
	}
	post(victim, `{"jsonrpc":"2.0","id":1,"method":"tools/list"}`, "Mcp-Session-Id: "+sessionOf(post(victim, begin)))
	for _, tool := range append(sayings(), part.Tool, failing) {
		_, err := callTool(ctx, victim, tool, said)
		fmt.Println(err)
	}
	fmt.Fprintln(os.Stderr, said, part.Unprintable)
	fmt.Println(said, part.Unprintable)
	return nil
}

// failing is a tool whose calls fail.
const failing = "fails"

// serveSayings is a server that uses the texts as names, descriptions and results of tools.
func serveSayings() error {
	said := part.Said()
	s := server.NewMCPServer(said, said, server.WithInstructions(said), server.WithLogging())
	fmt.Fprintln(os.Stderr, said, part.Unprintable)
	answer := &mcp.CallToolResult{IsError: true, StructuredContent: map[string]any{said: []string{said}}, Content: []mcp.Content{
		mcp.NewTextContent(said),
		mcp.NewTextContent(part.Unprintable),
		mcp.NewImageContent("PHN2Zz4=", said),
		mcp.NewResourceLink("javascript:console.log('address-mark')", said, said, "text/html"),
		mcp.NewEmbeddedResource(mcp.TextResourceContents{URI: "data:text/html,address-mark", MIMEType: "text/html", Text: said}),
	}}
	for _, name := range append(sayings(), part.Tool, failing) {
		tool := mcp.NewTool(name, mcp.WithString("text", mcp.Description(said)), mcp.WithString(said), mcp.WithDescription(said), mcp.WithTitleAnnotation(said))
		s.AddTool(tool, func(ctx context.Context, q mcp.CallToolRequest) (*mcp.CallToolResult, error) {
			_ = s.SendNotificationToClient(ctx, "notifications/message", map[string]any{"level": said, "logger": said, "data": said})
			if q.Params.Name == failing {
				return nil, errors.New(said)
			}
			return answer, nil
		})
	}
	return server.ServeStdio(s)
}

func sayAsGrader(context.Context) []part.Word {
	fmt.Println(part.Said(), part.Unprintable)
	fmt.Fprintln(os.Stderr, part.Said(), part.Unprintable)
	os.Exit(1)
	return nil
}

func sayOnStderr(context.Context) []part.Word {
	fmt.Fprintln(os.Stderr, part.Said())
	return nil
}

// sayLastWords writes texts to stderr that fit into the error message, and exits.
func sayLastWords() error {
	markups := part.Markups()
	for _, name := range []string{"junit-case", "markdown-break", "markdown-link", "markdown-name", "markdown-structure"} {
		fmt.Fprintln(os.Stderr, markups[name])
	}
	os.Exit(1)
	return nil
}
