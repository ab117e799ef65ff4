package main

import (
	"bytes"
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"

	"github.com/waza-isolate/waza/test/attacks/part"
)

// otherSNI sends a ClientHello for another host through a tunnel to the allowed host.
func otherSNI(ctx context.Context) part.Word {
	err := tunnelTo(ctx, proxyHost(), part.Allowed+":443", helloFor("other.example"))
	return part.Word{Attack: part.OtherSNI, Detail: fmt.Sprint(err)}
}

// helloFor returns a ClientHello for a host.
func helloFor(host string) []byte {
	var hello bytes.Buffer
	near, far := net.Pipe()
	read := make(chan struct{})
	go func() {
		defer close(read)
		first := make([]byte, 16<<10)
		n, _ := far.Read(first) // a single record, written at once
		hello.Write(first[:n])
		_ = far.Close()
	}()
	_ = tls.Client(near, &tls.Config{ServerName: host}).Handshake() // nobody responds
	<-read
	return hello.Bytes()
}

// otherHost names a listener in the Host header of a request to the allowed host.
func otherHost() part.Word {
	aims, err := aims(agent)
	if err != nil || len(aims.Host.Addrs) == 0 {
		return part.Word{Attack: part.OtherHost, Detail: "it knows no address of the host"}
	}
	conn, err := net.DialTimeout("tcp", part.Allowed+":80", answerTime)
	if err != nil {
		return part.Word{Attack: part.OtherHost, Detail: err.Error()}
	}
	defer func() { _ = conn.Close() }()
	_, _ = fmt.Fprintf(conn, "GET / HTTP/1.1\r\nHost: %s\r\nConnection: close\r\n\r\n", net.JoinHostPort(aims.Host.Addrs[0], fmt.Sprint(aims.Host.TCP4)))
	answer, _ := io.ReadAll(io.LimitReader(conn, 1<<10))
	return tried(part.OtherHost, string(answer))
}
