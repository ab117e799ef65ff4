package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/waza-isolate/waza/test/attacks/part"
)

func forgingActs() map[string]act {
	return map[string]act{part.Forging: {agent: askForger, server: forge}}
}

// forge is a stdio server that responds to each call as the attack in the call's mark
// demands.
func forge() error {
	in := bufio.NewReaderSize(os.Stdin, 1<<16)
	held := map[string]string{} // responses to send after a cancellation
	lists := 0
	for {
		line, err := in.ReadString('\n')
		if err != nil {
			return nil
		}
		for _, m := range messages([]byte(line)) {
			id, _ := json.Marshal(m.fields["id"]) // decoded from JSON
			switch m.fields["method"] {
			case "notifications/cancelled":
				fmt.Println(held["cancelled"])
			case "tools/list":
				lists++
				fmt.Printf(`{"jsonrpc":"2.0","id":%s,"result":{"tools":[{"name":"open","description":"version %d","inputSchema":{}}]}}`+"\n", id, lists)
			case "tools/call":
				answerFalsely(m, string(id), held)
			case "initialize":
				fmt.Println(strings.Replace(m.answer(), `"2025-06-18"`, versionFor(m.mark()), 1))
			case "ping":
				if mark := m.mark(); mark == part.OtherSession || mark == part.OtherServer {
					fmt.Println(done(part.Pending))
				}
				fmt.Println(m.answer())
			}
		}
	}
}

// versionFor returns the protocol version that the server announces.
func versionFor(mark string) string {
	switch mark {
	case "version-future":
		return `"2099-01-01"`
	case "version-old":
		return `"1999-01-01"`
	case "version-empty":
		return `""`
	case "version-array":
		return `["2025-06-18"]`
	case "version-stateless":
		return `"2026-07-28"`
	}
	return `"2025-06-18"`
}

func done(id string) string {
	return `{"jsonrpc":"2.0","id":` + id + `,"result":{"content":[{"type":"text","text":"forged"}]}}`
}

// answerFalsely responds to one call.
func answerFalsely(m message, id string, held map[string]string) {
	mark := m.mark()
	switch mark {
	case part.Forging:
		fmt.Println(done(`"` + id + `"`))
	case "answer-twice":
		fmt.Println(m.answer())
		fmt.Println(done(id))
	case "answer-ahead":
		fmt.Println(done("7"))
		fmt.Println(m.answer())
	case "ask-with-agents-id":
		fmt.Println(`{"jsonrpc":"2.0","id":` + id + `,"method":"ping"}`)
	case "answer-after-cancel":
		held["cancelled"] = done(id)
	case "never-answer", part.OtherSession, part.OtherServer:
	case "long-line":
		pour(mark, 1<<30, 16<<20, strings.Repeat("x", 1<<16))
	case "small-frames":
		pour(mark, 300<<20, 2<<20, strings.Repeat(`{"jsonrpc":"2.0","method":"x"}`+"\n", 1<<10))
	case "noise-lines":
		pour(mark, 60<<20, 2<<20, strings.Repeat("noise\n", 1<<10))
	default:
		line := odd(mark) + "\n"
		for range 3 {
			fmt.Print(line)
		}
		fmt.Println(m.answer())
	}
}

// Time limits of a flood that is not stopped: pourTime in general, and mostTime if it is
// slow.
const (
	pourTime = 6 * time.Second
	mostTime = time.Minute
)

// pour writes size bytes. It reports on stderr when many bytes were accepted, which is more
// than the runner and the buffers in between hold if the flood is stopped.
func pour(mark string, size, many int, piece string) {
	began, reported := time.Now(), false
	for written := 0; written < size; written += len(piece) {
		if took := time.Since(began); took > mostTime || reported && took > pourTime {
			return
		}
		if _, err := io.WriteString(os.Stdout, piece); err != nil {
			return
		}
		if written >= many && !reported {
			fmt.Fprintln(os.Stderr, part.Flooded(mark))
			reported = true
		}
	}
}

// odd returns a line that has broken parsers.
func odd(mark string) string {
	const head = `{"jsonrpc":"2.0","method":"notifications/message","params":`
	switch mark {
	case "json-deep":
		return head + strings.Repeat("[", 100_000) + strings.Repeat("]", 100_000) + "}"
	case "json-huge-numbers":
		return head + `[1e400,-1e-400,1e999999999,` + strings.Repeat("9", 1_000_000) + `,0.` + strings.Repeat("1", 1_000_000) + "]}"
	case "json-not-utf8":
		return head + "\"\xff\xfe\xc0\x80\"}"
	case "json-lone-surrogates":
		return head + `"\ud800\udfff\udc00"}`
	case "json-nul":
		return head + "\"\x00\"}\x00\x00"
	case "json-byte-order-mark":
		return "\xef\xbb\xbf" + head + `1}`
	case "json-utf16":
		return "{\x00\"\x00j\x00\"\x00:\x001\x00}\x00"
	case "json-keys-twice":
		return `{"jsonrpc":"2.0","method":"a","method":"b","id":1,"id":2,"result":{},"result":1}`
	case "batch-empty":
		return "[]"
	case "batch-nested":
		return `[[{"jsonrpc":"2.0","method":"x"}]]`
	case "batch-huge":
		return "[" + strings.Repeat(`{"jsonrpc":"2.0","method":"x"},`, 100_000) + `{"jsonrpc":"2.0","method":"x"}]`
	case "stream-lines":
		return "{\"jsonrpc\":\"2.0\",\r\r\"method\":\"notifications/message\",\r\"params\":{\"data\":\"\\r\\n\\r\\ndata: {}\"}}"
	}
	return ""
}

// askForger calls a forging server once per attack, each in its own session.
func askForger(context.Context) []part.Word {
	var words []part.Word
	for _, mark := range part.Forgeries() {
		server := victim
		switch {
		case slices.Contains(part.Floods(), mark):
			server = mark
		case slices.Contains(part.Oddities(), mark):
			server = part.Patient
		}
		session := sessionOf(post(server, fmt.Sprintf(
			`{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-06-18","mark":"%s"}}`, mark)))
		words = append(words, tried(mark, askOnce(server, mark, "Mcp-Session-Id: "+session)))
	}
	return words
}

// askOnce has the server perform one attack, and does the agent's part of it.
func askOnce(server, mark, session string) string {
	call := fmt.Sprintf(`{"jsonrpc":"2.0","id":%%d,"method":"tools/call","params":{"name":"open","arguments":{"mark":"%s"}}}`, mark)
	ask := func(id int) string { return post(server, fmt.Sprintf(call, id), session) }
	switch mark {
	case "ask-with-agents-id":
		later := time.AfterFunc(time.Second, func() { post(victim, done("1"), session) })
		defer later.Stop()
	case "answer-after-cancel":
		later := time.AfterFunc(time.Second, func() {
			post(victim, `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}`, session)
		})
		defer later.Stop()
	case part.OtherSession, part.OtherServer:
		later := time.AfterFunc(time.Second, func() { answerElsewhere(mark) })
		defer later.Stop()
		return post(victim, strings.Replace(fmt.Sprintf(call, 0), `"id":0`, `"id":`+part.Pending, 1), session)
	case "answer-ahead":
		ask(6)
		never := strings.Replace(call, mark, "never-answer", 1)
		return post(victim, fmt.Sprintf(never, 7), session)
	case "changing-tools":
		for id := range 2 {
			post(victim, fmt.Sprintf(`{"jsonrpc":"2.0","id":"l%d","method":"tools/list"}`, id), session)
		}
	}
	return ask(1)
}

// answerElsewhere has another session respond to the request that is pending in the first.
func answerElsewhere(mark string) {
	server := victim
	if mark == part.OtherServer {
		server = part.Floods()[0]
	}
	session := sessionOf(post(server, begin))
	post(server, fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":"ping","params":{"mark":"%s"}}`, mark), "Mcp-Session-Id: "+session)
}

// sessionOf returns the session ID in a response's headers.
func sessionOf(answer string) string {
	_, rest, _ := strings.Cut(strings.ToLower(answer), "mcp-session-id: ")
	start := len(answer) - len(rest)
	id, _, _ := strings.Cut(answer[start:], "\r\n")
	return id
}
