package main

import (
	"bytes"
	"context"
	"encoding/json"
	"strings"

	"github.com/waza-isolate/waza/sandbox/probe"
	"github.com/waza-isolate/waza/test/attacks/part"
)

func probingActs() map[string]act {
	return map[string]act{
		"grader-gets-out": {grader: probing(grader)},
		"host-tcp":        {agent: probing(agent), tool: probing(stdioServer)},
	}
}

// probing returns a function that runs every attack of the probe in a role.
func probing(role string) func(context.Context) []part.Word {
	return func(context.Context) []part.Word {
		aims, err := aims(role)
		if err != nil {
			return nil
		}
		input, _ := json.Marshal(aims) // plain data
		var found bytes.Buffer
		_ = probe.Main([]string{probe.TryAll}, bytes.NewReader(input), &found) // missing findings mean that the attack was not tried
		var words []part.Word
		for line := range strings.Lines(found.String()) {
			var f probe.Finding
			if json.Unmarshal([]byte(line), &f) == nil {
				words = append(words, part.Word{Attack: f.Attack, Won: f.State == probe.Out, Detail: "as " + role + ": " + f.Detail})
			}
		}
		return words
	}
}
