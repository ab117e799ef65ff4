package cmdmock_test

import (
	"strings"
	"testing"

	"github.com/waza-isolate/waza/internal/jsontext"
	"github.com/waza-isolate/waza/sandbox/cmdmock"
)

// Whatever a program in the agent's container asks is read, or refused.
func FuzzReadInvocation(f *testing.F) {
	f.Add(`{"command":"az","args":["a","b"],"env":{"X":"1"},"dir":"/workspace/sub"}`)
	f.Add(`{"args":null}`)
	f.Fuzz(func(t *testing.T, asked string) {
		if _, err := cmdmock.ReadInvocation(strings.NewReader(asked)); err == nil && !jsontext.Valid([]byte(asked)) {
			t.Errorf("it reads %q", asked)
		}
	})
}
