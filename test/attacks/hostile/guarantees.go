package main

import (
	"context"

	"golang.org/x/sys/unix"

	"github.com/waza-isolate/waza/test/attacks/part"
)

// guaranteeActs returns the acts that the recorded isolation does not allow.
func guaranteeActs() map[string]act {
	return map[string]act{part.Unfiltered: {tool: func(context.Context) []part.Word {
		_, err := unix.AddKey("user", "hostile", []byte("x"), unix.KEY_SPEC_PROCESS_KEYRING)
		return []part.Word{tell(part.Unfiltered, stdioServer, err)}
	}}}
}
