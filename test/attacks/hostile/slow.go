package main

import (
	"context"
	"io"
	"net"
	"strings"
	"sync"
	"time"

	"github.com/waza-isolate/waza/test/attacks/part"
)

const (
	largeText   = 8_000_000 // size of a response
	askedOfEach = 30        // requests to each server
	unread      = 15 * time.Second
)

func slowActs() map[string]act {
	return map[string]act{part.SlowReader: {agent: func(context.Context) []part.Word {
		askMuch()
		return []part.Word{{Attack: part.SlowReader, Detail: "it asked, and read nothing"}}
	}}}
}

// largeAnswer is created once, since the server's memory does not matter.
var largeAnswer = sync.OnceValue(func() string {
	return `{"jsonrpc":"2.0","id":1,"result":{"content":[{"type":"text","text":"` + strings.Repeat("x", largeText) + `"}]}}`
})

// askMuch requests large responses and does not read them. It uses ping, since records of
// calls are limited elsewhere.
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
