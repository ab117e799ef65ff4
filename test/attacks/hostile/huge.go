package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"

	"github.com/waza-isolate/waza/test/attacks/part"
)

// hugeActs returns the acts that produce more output than can be displayed.
func hugeActs() map[string]act {
	return map[string]act{part.Huge: {agent: askHuge, server: serveHuge, grader: sayHugely}}
}

// hugeAnswers returns the results of tools, by tool name.
func hugeAnswers() map[string]string {
	text := func(s string) string {
		quoted, _ := json.Marshal(s) // a string
		return `{"content":[{"type":"text","text":` + string(quoted) + `}]}`
	}
	return map[string]string{
		part.Tool:   text(hugeText()),
		"lines":     text(strings.Repeat("\n", part.HugeText/4)),
		"line":      text(strings.Repeat("wide", part.HugeText/4)),
		"marks":     text(strings.Repeat("a\u0301\u202e", part.HugeText/8)),
		"deep":      `{"content":[],"structuredContent":{"deep":` + strings.Repeat("[", part.HugeDepth) + strings.Repeat("]", part.HugeDepth) + `}}`,
		"wide":      `{"content":[],"structuredContent":{"wide":[0` + strings.Repeat(",0", part.HugeList) + `]}}`,
		longName(0): text(part.Said()),
	}
}

func hugeText() string {
	said := part.Said()
	return strings.Repeat(said, part.HugeText/len(said)+1)[:part.HugeText]
}

func longName(n int) string { return strings.Repeat("n", part.HugeName) + fmt.Sprint(n) }

// serveHuge is a stdio server.
func serveHuge() error {
	in, answers := bufio.NewReaderSize(os.Stdin, 1<<16), hugeAnswers()
	for {
		line, err := in.ReadString('\n')
		if err != nil {
			return nil
		}
		var q struct {
			ID     json.RawMessage
			Method string
			Params struct{ Name string }
		}
		if json.Unmarshal([]byte(line), &q) != nil || len(q.ID) == 0 {
			continue
		}
		result := `{"protocolVersion":"2025-06-18","capabilities":{"tools":{}},"serverInfo":{"name":"huge","version":"1"}}`
		switch q.Method {
		case "tools/list":
			result = hugeList()
		case "tools/call":
			if result = answers[q.Params.Name]; result == "" {
				result = `{"content":[]}`
			}
		}
		fmt.Printf(`{"jsonrpc":"2.0","id":%s,"result":%s}`+"\n", q.ID, result)
	}
}

func hugeList() string {
	var list strings.Builder
	for i := range part.HugeNames {
		name := fmt.Sprintf("tool-%d", i)
		if i < 3 {
			name = longName(i)
		}
		fmt.Fprintf(&list, `%s{"name":"%s","inputSchema":{"type":"object"}}`, strings.Repeat(",", min(i, 1)), name)
	}
	return `{"tools":[` + list.String() + `]}`
}

func askHuge(context.Context) []part.Word {
	session := "Mcp-Session-Id: " + sessionOf(post(victim, begin))
	post(victim, `{"jsonrpc":"2.0","id":1,"method":"tools/list"}`, session)
	for i := range part.HugeCalls {
		post(victim, fmt.Sprintf(`{"jsonrpc":"2.0","id":"%d","method":"tools/call","params":{"name":"%s"}}`, i, longName(3+i)), session)
	}
	for i, tool := range slices.Sorted(maps.Keys(hugeAnswers())) {
		post(victim, fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":"%s","arguments":{"text":"%s"}}}`, 2+i, tool, strings.Repeat("x", 1<<20)), session)
	}
	fmt.Println(hugeText())
	return nil
}

func sayHugely(context.Context) []part.Word {
	fmt.Println(hugeText())
	os.Exit(1)
	return nil
}
