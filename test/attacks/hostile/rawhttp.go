package main

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"strings"
	"time"

	"github.com/waza-isolate/waza/test/attacks/part"
)

const (
	answerTime = 10 * time.Second // time limit of a request
	floodTime  = 45 * time.Second // time limit of a request that is slow on a busy machine
)

// send writes a raw request to a server and returns the response, up to a limit.
func send(server, request string) string { return sendFor(answerTime, server, request) }

func sendFor(limit time.Duration, server, request string) string {
	conn, err := net.DialTimeout("tcp", at(server, serversPort), answerTime)
	if err != nil {
		return err.Error()
	}
	defer func() { _ = conn.Close() }()
	_ = conn.SetDeadline(time.Now().Add(limit))
	go func() { _, _ = io.WriteString(conn, request) }()
	answer, _ := io.ReadAll(io.LimitReader(bufio.NewReader(conn), 8<<20))
	return string(answer)
}

// post sends a request on a new connection; headers are whole lines.
func post(server, body string, headers ...string) string {
	return send(server, request(server, body, headers...))
}

func request(host, body string, headers ...string) string {
	lines := append([]string{
		"POST /mcp HTTP/1.1", "Host: " + host, "Accept: application/json, text/event-stream", "Connection: close",
		fmt.Sprintf("Content-Length: %d", len(body)),
	}, headers...)
	if !strings.Contains(strings.Join(headers, "\n"), "Content-Type:") {
		lines = append(lines, "Content-Type: application/json")
	}
	return strings.Join(lines, "\r\n") + "\r\n\r\n" + body
}

// tried reports that an attack took place, with the first line of the response.
func tried(attack, answer string) part.Word {
	first, _, _ := strings.Cut(answer, "\n")
	return part.Word{Attack: attack, Detail: fmt.Sprintf("%.100q", first)}
}
