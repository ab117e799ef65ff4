// Command waza-guest is what waza runs in containers. scripts/build embeds it in waza.
package main

import (
	"fmt"
	"os"

	"github.com/waza-isolate/waza/sandbox/inside"
)

func main() {
	code, found := inside.Main()
	if !found {
		fmt.Fprintln(os.Stderr, "waza-guest is started by waza, in containers; run waza instead")
		code = 2
	}
	os.Exit(code)
}
