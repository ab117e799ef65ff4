package main

import (
	"context"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/waza-isolate/waza/test/attacks/part"
)

func routingActs() map[string]act {
	return map[string]act{
		part.Routing: {agent: routing},
		"redirect-elsewhere": {agent: func(context.Context) []part.Word {
			return []part.Word{tried("redirect-elsewhere", post("away", marked("redirect-elsewhere")))}
		}},
		"endpoint-elsewhere": {agent: func(context.Context) []part.Word { return nil }}, // never called
		"nothing-but-values": {agent: func(context.Context) []part.Word {
			return []part.Word{tried("nothing-but-values", sendFor(floodTime, part.Left, request(part.Left, valuesAlone(56<<20))))}
		}},
		"slowloris": {agent: func(context.Context) []part.Word { return []part.Word{slowloris()} }},
		"half-open": {agent: func(context.Context) []part.Word { return []part.Word{halfOpen()} }},
	}
}

// marked returns a call that every server accepts.
func marked(mark string) string {
	return fmt.Sprintf(called+`"params":{"name":"open","arguments":{"mark":"%s"}}}`, mark)
}

// routing addresses one server as another, and smuggles requests.
func routing(context.Context) []part.Word {
	var words []part.Word
	for _, host := range []string{"right.", "RIGHT", "right:80", "right:8080", "left, right", "right\t", "left@right", "[right]"} {
		words = append(words, tried(part.Routing, send(part.Left, request(host, marked(part.Routing)))))
	}
	body := marked("two-hosts")
	words = append(words, tried("two-hosts", post(part.Left, body, "Host: right")))
	absolute := strings.Replace(request(part.Left, marked("absolute-target")), "POST /mcp", "POST http://right/mcp", 1)
	words = append(words, tried("absolute-target", send(part.Left, absolute)))
	for attack, raw := range smuggling() {
		words = append(words, tried(attack, send(part.Left, raw)))
	}
	words = append(words, tried("endless-comments", sendFor(floodTime, part.Right, request(part.Right, marked("endless-comments")))))
	for attack, path := range map[string]string{
		"model-path-climbs": "/stub/../../mcp", "model-other-provider": "/other/v1/chat/completions", "model-absolute": "http://left/mcp",
	} {
		raw := strings.Replace(request("model", marked(attack)), "POST /mcp", "POST "+path, 1)
		words = append(words, tried(attack, send(part.Left, raw)))
	}
	return words
}

// smuggling returns requests that contain a second one, for parsers that disagree about the
// end of the first.
func smuggling() map[string]string {
	inner := func(mark string) string { return request(part.Right, marked(mark)) }
	begin := func(lines ...string) string {
		return "POST /mcp HTTP/1.1\r\nHost: left\r\nContent-Type: application/json\r\n" + strings.Join(lines, "\r\n") + "\r\n\r\n"
	}
	chunk := func(text, extension string) string { return fmt.Sprintf("%x%s\r\n%s\r\n", len(text), extension, text) }
	short := func(mark string) string { // a complete first request, according to Content-Length
		return begin("Content-Length: 2", "Transfer-Encoding: chunked") + "0\r\n\r\n" + inner(mark)
	}
	return map[string]string{
		"smuggle-cl-te":            short("smuggle-cl-te"),
		"smuggle-te-cl":            begin("Transfer-Encoding: chunked", "Content-Length: 4") + chunk(inner("smuggle-te-cl"), "") + "0\r\n\r\n",
		"smuggle-two-lengths":      begin("Content-Length: 2", "Content-Length: 500") + "{}" + inner("smuggle-two-lengths"),
		"smuggle-te-te":            begin("Transfer-Encoding: chunked", "Transfer-Encoding: identity") + "0\r\n\r\n" + inner("smuggle-te-te"),
		"smuggle-te-space":         begin("Transfer-Encoding : chunked") + "0\r\n\r\n" + inner("smuggle-te-space"),
		"smuggle-obs-fold":         begin("X: a", " Transfer-Encoding: chunked", "Content-Length: 2") + "{}" + inner("smuggle-obs-fold"),
		"smuggle-nul-header":       begin("X: a\x00b", "Content-Length: 2") + "{}" + inner("smuggle-nul-header"),
		"smuggle-bare-cr":          begin("X: a\rTransfer-Encoding: chunked", "Content-Length: 2") + "{}" + inner("smuggle-bare-cr"),
		"smuggle-chunk-huge":       begin("Transfer-Encoding: chunked") + "fffffffffffffffff\r\n" + inner("smuggle-chunk-huge"),
		"smuggle-chunk-negative":   begin("Transfer-Encoding: chunked") + "-1\r\n" + inner("smuggle-chunk-negative"),
		"smuggle-chunk-odd":        begin("Transfer-Encoding: chunked") + "0x2\r\n{}\r\n0\r\n\r\n" + inner("smuggle-chunk-odd"),
		"smuggle-chunk-extensions": begin("Transfer-Encoding: chunked") + chunk(marked("smuggle-chunk-extensions"), ";"+strings.Repeat("a", 1<<20)) + "0\r\n\r\n",
		"smuggle-headers":          begin(strings.Repeat("X: y\r\n", 10_000)+"Content-Length: 2") + "{}" + inner("smuggle-headers"),
		"smuggle-long-header":      begin("X: "+strings.Repeat("y", 1<<20), "Content-Length: 2") + "{}" + inner("smuggle-long-header"),
	}
}

// valuesAlone returns a call with size bytes of keys as its parameters.
func valuesAlone(size int) string {
	b := []byte(called + `"params":{"name":"open"`)
	for i := 0; len(b) < size; i++ {
		b = append(strconv.AppendInt(append(b, `,"`...), int64(i), 36), `":1`...)
	}
	return string(append(b, `}}`...))
}

// slowTime is longer than the header timeout, which begins when a busy runner has taken the connection.
const slowTime = 20 * time.Second

// slowloris sends headers at one byte per second on many connections.
func slowloris() part.Word {
	open := hold(100, "POST /mcp HTTP/1.1\r\nHost: left\r\nX: ", func(conn net.Conn) bool {
		for until := time.Now().Add(slowTime); time.Now().Before(until); time.Sleep(time.Second) {
			if _, err := io.WriteString(conn, "x"); err != nil {
				return false
			}
		}
		return true
	})
	return part.Word{Attack: "slowloris", Won: open > 0, Detail: fmt.Sprintf("%d connections are open after %v", open, slowTime)}
}

// halfOpen sends a request on many connections and keeps them open.
func halfOpen() part.Word {
	const tries = 300
	var everyone sync.WaitGroup
	everyone.Add(tries)
	answered := hold(tries, "GET /other HTTP/1.1\r\nHost: left\r\n\r\n", func(conn net.Conn) bool {
		defer everyone.Wait()
		defer everyone.Done()
		_ = conn.SetReadDeadline(time.Now().Add(answerTime))
		_, err := conn.Read(make([]byte, 1))
		return err == nil
	})
	return part.Word{Attack: "half-open", Won: answered > tries/2, Detail: fmt.Sprintf("%d of %d connections were answered at once", answered, tries)}
}

// hold opens connections, writes to each, and counts those on which then returns true.
func hold(conns int, greeting string, then func(net.Conn) bool) int {
	var holding sync.WaitGroup
	var mu sync.Mutex
	well := 0
	for range conns {
		holding.Go(func() {
			conn, err := net.DialTimeout("tcp", at(part.Left, serversPort), answerTime)
			if err != nil {
				conn, _ = net.Pipe() // nobody is there
				_ = conn.Close()
			}
			defer func() { _ = conn.Close() }()
			_, _ = io.WriteString(conn, greeting)
			if then(conn) {
				mu.Lock()
				defer mu.Unlock()
				well++
			}
		})
	}
	holding.Wait()
	return well
}
