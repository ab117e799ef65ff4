package main

import (
	"context"

	"golang.org/x/sys/unix"

	"github.com/waza-isolate/waza/attacks/part"
)

// guaranteeActs do what the walls that are on record would not let them.
func guaranteeActs() map[string]act {
	return map[string]act{part.Unfiltered: {tool: func(context.Context) []part.Word {
		_, err := unix.AddKey("user", "hostile", []byte("x"), unix.KEY_SPEC_PROCESS_KEYRING)
		return []part.Word{tell(part.Unfiltered, stdioServer, err)}
	}}}
}
