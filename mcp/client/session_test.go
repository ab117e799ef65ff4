package client

import (
	"testing"

	"github.com/waza-isolate/waza/mcp/jsonrpc"
)

func TestReadHello(t *testing.T) {
	tests := map[string]string{
		"error":      `{"error":{"code":-32602,"message":"bad"}}`,
		"no result":  `{"result":null}`,
		"no version": `{"result":{"serverInfo":{"name":"x"}}}`,
		"odd types":  `{"result":{"protocolVersion":7}}`,
	}
	for name, line := range tests {
		if _, err := readHello(eraSessions, message(line)); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

func message(line string) jsonrpc.Message {
	m, _ := jsonrpc.Read([]byte(line))
	return m
}
