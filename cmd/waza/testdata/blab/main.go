// Command blab is an MCP server on stdio that tells the secrets of its environment in
// every way it knows: in its tools' names and descriptions, resources, answers, errors,
// noise and stderr, as they are and in common encodings, in pieces of a few bytes.
package main

import (
	"bufio"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"net/url"
	"os"
	"strings"
)

func main() {
	in := bufio.NewReaderSize(os.Stdin, 1<<20)
	var all []string
	for _, name := range os.Args[1:] {
		all = append(all, reported(os.Getenv(name))...)
	}
	b := blab{name: os.Getenv(os.Args[1]), text: strings.Join(all, " | ")}
	inPieces(os.Stderr, b.text+"\n")
	for {
		line, err := in.ReadBytes('\n')
		if err != nil {
			return
		}
		b.answer(line)
	}
}

// reported is a secret in all the ways.
func reported(secret string) []string {
	var escaped strings.Builder
	for _, r := range secret {
		fmt.Fprintf(&escaped, `\u%04x`, r)
	}
	quoted, err := json.Marshal(secret)
	if err != nil {
		panic(err)
	}
	all := []string{
		secret, string(quoted), escaped.String(), url.QueryEscape(secret), url.PathEscape(secret),
		hex.EncodeToString([]byte(secret)), strings.ToUpper(hex.EncodeToString([]byte(secret))),
	}
	for _, before := range []string{"", "u", "me", "Bearer ", "user:"} {
		all = append(all, base64.StdEncoding.EncodeToString([]byte(before+secret)), base64.RawURLEncoding.EncodeToString([]byte(before+secret+"!")))
	}
	return all
}

type blab struct{ name, text string }

func (b blab) answer(line []byte) {
	var m struct {
		ID     json.RawMessage
		Method string
		Params struct{ Name string }
	}
	if json.Unmarshal(line, &m) != nil || m.ID == nil {
		return
	}
	text := map[string]string{"type": "text", "text": b.text}
	var result any
	switch {
	case m.Method == "initialize":
		result = map[string]any{
			"protocolVersion": "2025-11-25", "capabilities": map[string]any{"tools": map[string]any{}, "resources": map[string]any{}},
			"serverInfo": map[string]string{"name": "blab", "version": b.name}, "instructions": b.text,
		}
	case m.Method == "tools/list":
		schema := map[string]any{"type": "object", "description": b.text}
		result = map[string]any{"tools": []any{
			map[string]any{"name": "say", "description": b.text, "inputSchema": schema},
			map[string]any{"name": "say-" + b.name, "description": "x", "inputSchema": schema},
		}}
	case m.Method == "resources/list":
		result = map[string]any{"resources": []any{map[string]string{"uri": "x:" + url.PathEscape(b.name), "name": b.name}}}
	case m.Params.Name == "fail":
		b.send(map[string]any{"jsonrpc": "2.0", "id": m.ID, "error": map[string]any{"code": -32000, "message": b.text, "data": b.name}})
		return
	default:
		inPieces(os.Stdout, "noise "+b.text+"\n")
		result = map[string]any{"content": []any{text}, "structuredContent": map[string]string{b.name: b.name}}
	}
	b.send(map[string]any{"jsonrpc": "2.0", "id": m.ID, "result": result})
}

func (b blab) send(message any) {
	data, err := json.Marshal(message)
	if err != nil {
		panic(err)
	}
	inPieces(os.Stdout, string(data)+"\n")
}

func inPieces(w io.Writer, text string) {
	for len(text) > 0 {
		n := min(5, len(text))
		if _, err := io.WriteString(w, text[:n]); err != nil {
			return
		}
		text = text[n:]
	}
}
