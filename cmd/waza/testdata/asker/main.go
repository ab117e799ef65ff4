// Command asker is an agent: it asks the model at a URL until that asks for no more tools,
// and does what it asks for. It has a tool of the inventory's, and one by which a program
// of its own makes the same call, on a conversation of its own.
//
//	asker MODEL SERVER    both URLs; the prompt on stdin
package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"log"
	"net/http"
	"os"
)

const find = "mcp__inventory__find_item"

type message struct {
	Role       string `json:"role"`
	Content    string `json:"content"`
	ToolCalls  []use  `json:"tool_calls,omitempty"`
	ToolCallID string `json:"tool_call_id,omitempty"`
}

type use struct {
	ID       string `json:"id"`
	Type     string `json:"type"`
	Function struct {
		Name      string `json:"name"`
		Arguments string `json:"arguments"`
	} `json:"function"`
}

func main() {
	prompt, err := io.ReadAll(os.Stdin)
	if err == nil {
		err = talk(os.Args[1], os.Args[2], string(prompt))
	}
	if err != nil {
		log.Fatal(err)
	}
}

func talk(model, server, prompt string) error {
	own := &session{url: server}
	conversation := []message{{Role: "user", Content: prompt}}
	for {
		said, err := ask(model, conversation)
		if err != nil {
			return err
		}
		conversation = append(conversation, said)
		for _, use := range said.ToolCalls {
			by := own
			if use.Function.Name != find {
				by = &session{url: server}
			}
			if err := by.call(); err != nil {
				return err
			}
			conversation = append(conversation, message{Role: "tool", ToolCallID: use.ID, Content: "done"})
		}
		if len(said.ToolCalls) == 0 {
			fmt.Println(said.Content)
			return nil
		}
	}
}

func ask(model string, conversation []message) (message, error) {
	tool := func(name string) map[string]any {
		return map[string]any{"type": "function", "function": map[string]any{"name": name, "parameters": map[string]any{"type": "object"}}}
	}
	body, err := json.Marshal(map[string]any{
		"model": "any", "messages": conversation, "tools": []any{tool(find), tool("shell")},
	})
	if err != nil {
		return message{}, err
	}
	answer, _, err := post(model, "", body)
	if err != nil {
		return message{}, err
	}
	var reported struct{ Choices []struct{ Message message } }
	if err := json.Unmarshal(answer, &reported); err != nil || len(reported.Choices) == 0 {
		return message{}, fmt.Errorf("%v: %s", err, answer)
	}
	return reported.Choices[0].Message, nil
}

// session is a conversation with the server, opened by its first call.
type session struct {
	url, id string
}

func (s *session) call() error {
	if s.id == "" {
		_, id, err := post(s.url, "", []byte(`{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"asker","version":"1"}}}`))
		if err != nil {
			return err
		}
		s.id = id
		if _, _, err := post(s.url, s.id, []byte(`{"jsonrpc":"2.0","method":"notifications/initialized"}`)); err != nil {
			return err
		}
	}
	_, _, err := post(s.url, s.id, []byte(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"find_item","arguments":{"sku":"BRG-6204"}}}`))
	return err
}

func post(url, session string, body []byte) (answer []byte, id string, err error) {
	r, err := http.NewRequest(http.MethodPost, url, bytes.NewReader(body))
	if err != nil {
		return nil, "", err
	}
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Accept", "application/json, text/event-stream")
	if session != "" {
		r.Header.Set("Mcp-Session-Id", session)
	}
	response, err := http.DefaultClient.Do(r)
	if err != nil {
		return nil, "", err
	}
	defer func() { _ = response.Body.Close() }()
	answer, err = io.ReadAll(response.Body)
	if err == nil && response.StatusCode >= 300 {
		err = fmt.Errorf("HTTP %d: %.200s", response.StatusCode, answer)
	}
	return answer, response.Header.Get("Mcp-Session-Id"), err
}
