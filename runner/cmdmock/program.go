package cmdmock

import (
	"encoding/json"
	"fmt"
	"io"
)

// Variable has the URL that programs which are played ask, in their environment.
const Variable = "WAZA_COMMANDS"

// Path is where below the URL of models they ask.
const Path = "/.command"

// MaxAnswer is how many bytes an answer has at most, as JSON.
const MaxAnswer = 4 * maxOutput

// ReadInvocation reads what a program asks. Whoever is in the agent's container may have written it.
func ReadInvocation(body io.Reader) (Invocation, error) {
	var in Invocation
	raw, err := io.ReadAll(io.LimitReader(body, maxInvocation+1))
	if err != nil {
		return in, err
	}
	if len(raw) > maxInvocation {
		return in, fmt.Errorf("the arguments and the environment have more than %d bytes", maxInvocation)
	}
	return in, json.Unmarshal(raw, &in)
}
