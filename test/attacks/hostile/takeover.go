package main

import (
	"context"

	"github.com/waza-isolate/waza/test/attacks/part"
)

// takeoverActs returns honest acts for the containers whose process 1 attacks: they start a
// second session with those servers.
func takeoverActs() map[string]act {
	names := []string{part.MuxStreams, part.MuxPings, part.MuxEmpty, part.MuxOversized, part.MuxGarbage}
	acts := map[string]act{part.LeadsOut: {}}
	for _, name := range names {
		acts[name] = act{}
	}
	acts[names[0]] = act{agent: func(context.Context) []part.Word {
		var words []part.Word
		for _, name := range names {
			words = append(words, tried(name, post(name, begin)))
		}
		return words
	}}
	return acts
}

// begin is an initialize request.
const begin = `{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-06-18"}}`
