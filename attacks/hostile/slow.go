package main

import (
	"context"
	"io"
	"net"
	"strings"
	"sync"
	"time"

	"github.com/waza-isolate/waza/attacks/part"
)

const (
	largeText   = 8_000_000 // bytes of an answer
	askedOfEach = 30        // answers of each server
	unread      = 15 * time.Second
)

func slowActs() map[string]act {
	return map[string]act{part.SlowReader: {agent: func(context.Context) []part.Word {
		askMuch()
		return []part.Word{{Attack: part.SlowReader, Detail: "it asked, and read nothing"}}
	}}}
}

// largeAnswer is made once: what a server holds of it is not the point.
var largeAnswer = sync.OnceValue(func() string {
	return `{"jsonrpc":"2.0","id":1,"result":{"content":[{"type":"text","text":"` + strings.Repeat("x", largeText) + `"}]}}`
})

// askMuch asks servers for large answers, and reads none of them while it is there.
// The requests are no calls: what is kept of those counts elsewhere.
func askMuch() {
	const ask = `{"jsonrpc":"2.0","id":1,"method":"ping","params":{"mark":"` + part.SlowReader + `"}}`
	for _, server := range part.Talkers() {
		for range askedOfEach {
			conn, err := net.DialTimeout("tcp", at(server, serversPort), answerTime)
			if err != nil {
				continue
			}
			defer func() { _ = conn.Close() }()
			_ = conn.(*net.TCPConn).SetReadBuffer(4 << 10)
			_, _ = io.WriteString(conn, request(server, ask))
		}
	}
	time.Sleep(unread)
}
