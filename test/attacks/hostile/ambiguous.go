package main

import (
	"bytes"
	"compress/gzip"
	"context"
	"fmt"

	"github.com/waza-isolate/waza/test/attacks/part"
)

func looseActs() map[string]act {
	return map[string]act{
		"loose":        {server: loose},
		part.Ambiguous: {agent: func(context.Context) []part.Word { return postAll(ambiguous(), "") }},
		part.Hidden:    {agent: func(context.Context) []part.Word { return postAll(hiding(), part.Filtered) }},
	}
}

// trick is a call that a server interprets in another way than the runner. Its body is a
// format string with one verb for the common arguments.
type trick struct {
	attack  string
	how     habit
	body    string
	headers []string
	packed  bool // send the body compressed with gzip
}

func (t trick) text() string {
	text := fmt.Sprintf(t.body, fmt.Sprintf(`"mark":"%s","habit":"%s"`, t.attack, t.how))
	if !t.packed {
		return text
	}
	var zipped bytes.Buffer
	out := gzip.NewWriter(&zipped)
	_, _ = out.Write([]byte(text)) // a buffer does not fail
	_ = out.Close()
	return zipped.String()
}

// postAll sends each trick to server, or if that is empty to the server named like the
// attack.
func postAll(tricks []trick, server string) []part.Word {
	var words []part.Word
	for _, t := range tricks {
		to := server
		if to == "" {
			to = t.attack
		}
		words = append(words, tried(t.attack, post(to, t.text(), t.headers...)))
	}
	return words
}

const called = `{"jsonrpc":"2.0","id":1,"method":"tools/call",`

// ambiguous returns calls that are recorded as one call and executed as another.
func ambiguous() []trick {
	return []trick{
		{attack: part.Ambiguous, how: firstWins, body: called + `"params":{"name":"hidden","name":"open","arguments":{%s}}}`},
		{attack: "call-method-twice", how: firstWins, body: called + `"method":"ping","params":{"name":"hidden","arguments":{%s}}}`},
		{attack: "call-argument-twice", how: firstWins, body: called + `"params":{"name":"open","arguments":{"path":"/etc","path":"/safe",%s}}}`},
		{attack: "call-name-in-other-case", how: ignoreCase, body: called + `"params":{"name":"open","Name":"hidden","arguments":{%s}}}`},
		{attack: "call-name-ends-at-nul", how: endAtNUL, body: called + `"params":{"name\u0000":"hidden","name":"open","arguments":{%s}}}`},
		{attack: "call-name-not-utf8", how: dropBytes, body: called + "\"params\":{\"na\xffme\":\"hidden\",\"nam\xffe\":\"hidden\",\"arguments\":{%s}}}"},
	}
}

// hiding returns calls of a tool that is hidden from the agent.
func hiding() []trick {
	plain := called + `"params":{"name":"hidden","arguments":{%s}}}`
	shown := called + `"params":{"name":"open","arguments":{%s}}}`
	return []trick{
		{attack: part.Hidden, body: plain},
		{attack: "hidden-name-twice", how: firstWins, body: called + `"params":{"name":"hidden","name":"open","arguments":{%s}}}`},
		{attack: "hidden-other-case", how: ignoreCase, body: called + `"params":{"name":"open","NAME":"hidden","arguments":{%s}}}`},
		{attack: "hidden-ends-at-nul", how: endAtNUL, body: `{"jsonrpc":"2.0","id":1,"method":"tools/call\u0000","params":{"name":"hidden","arguments":{%s}}}`},
		{attack: "hidden-not-utf8", how: dropBytes, body: called + "\"params\":{\"na\xffme\":\"hidden\",\"name\":\"open\",\"arguments\":{%s}}}"},
		{attack: "hidden-in-batch", body: `[{"jsonrpc":"2.0","id":2,"method":"ping"},` + plain + `]`},
		{attack: "hidden-by-header", how: byHeader, body: shown, headers: []string{"Mcp-Name: hidden"}},
		{
			attack: "hidden-by-charset", body: called + `"params":{"name":"open","arguments":{%s},"x":"+ACIALAAi-name+ACIAOgAi-hidden"}}`,
			headers: []string{"Content-Type: application/json; charset=utf-7"},
		},
		{attack: "hidden-by-encoding", body: plain, headers: []string{"Content-Encoding: gzip"}, packed: true},
	}
}
