// Command hostile is an MCP server on stdin and stdout that misbehaves as its
// argument says. It lists one tool, poke, and answers a call of it, unless the
// misbehaviour is that it does not.
package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"syscall"
	"time"
)

func main() {
	if len(os.Args) != 2 {
		os.Exit(2)
	}
	how := os.Args[1]
	if how == "exit" {
		fmt.Fprintln(os.Stderr, "goodbye")
		os.Exit(7)
	}
	if how == "noise" {
		fmt.Println("loading…\n\n{not JSON\n[1,2]\n\"text\"")
	}
	in := bufio.NewReaderSize(os.Stdin, 1<<20)
	for {
		line, err := in.ReadBytes('\n')
		if err != nil {
			return
		}
		var m struct {
			ID     json.RawMessage
			Method string
		}
		if json.Unmarshal(line, &m) != nil || m.ID == nil {
			continue
		}
		switch m.Method {
		case "initialize":
			answer(m.ID, `{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},"serverInfo":{"name":"hostile","version":"1"}}`)
		case "tools/list":
			answer(m.ID, `{"tools":[{"name":"poke","inputSchema":{"type":"object"}}]}`)
		case "tools/call":
			misbehave(how, m.ID)
		default:
			fmt.Printf(`{"jsonrpc":"2.0","id":%s,"error":{"code":-32601,"message":"no such method"}}`+"\n", m.ID)
		}
	}
}

func misbehave(how string, id json.RawMessage) {
	switch how {
	case "noise":
		fmt.Println("thinking\n\x00\x01")
		answer(id, text("poked"))
		fmt.Println("done")
	case "large": // a line of 50 MB
		answer(id, text(strings.Repeat("x", 50_000_000)))
	case "invalid-utf8":
		answer(id, text("pok\xff\xfeed"))
	case "close":
		fmt.Printf(`{"jsonrpc":"2.0","id":%s,"result":{"con`, id)
		os.Exit(3)
	case "kill": // its own group
		_ = syscall.Kill(0, syscall.SIGKILL)
	case "wrong-id":
		answer(json.RawMessage(`"somebody else's"`), text("poked"))
	case "stderr-flood":
		flood := append(bytes.Repeat([]byte("complaint "), 100), '\n')
		for range 64 << 10 { // 64 MB
			_, _ = os.Stderr.Write(flood)
		}
		answer(id, text("poked"))
	case "count": // calls since the server's container was made
		n, _ := os.ReadFile("/tmp/calls")
		n = append(n, '.')
		_ = os.WriteFile("/tmp/calls", n, 0o600)
		answer(id, text(fmt.Sprint(len(n))))
	case "silent":
		time.Sleep(time.Hour)
	default:
		answer(id, text("poked"))
	}
}

func answer(id json.RawMessage, result string) {
	out := bufio.NewWriter(os.Stdout)
	fmt.Fprintf(out, `{"jsonrpc":"2.0","id":%s,"result":%s}`+"\n", id, result)
	_ = out.Flush()
}

func text(s string) string { return `{"content":[{"type":"text","text":"` + s + `"}]}` }
