package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/waza-isolate/waza/agents"
)

// agentMain runs one of our own agents inside the agent's container.
func agentMain(args []string, stdin io.Reader, stdout, stderr io.Writer) (err error) {
	if len(args) != 1 {
		return errors.New("usage: waza agent NAME; it is started by waza run")
	}
	var in agents.Input
	input := json.NewDecoder(stdin)
	if err := input.Decode(&in); err != nil {
		return fmt.Errorf("agent input: %w", err)
	}
	stdout = in.Talk(input, stdout)
	transcript, err := os.OpenFile(in.Transcript, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, transcript.Close()) }()
	return agents.Run(context.Background(), args[0], in, stdout, stderr, transcript)
}
