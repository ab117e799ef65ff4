// Command waza runs agent evaluations, each trial in a sandbox of its own.
package main

import (
	"fmt"
	"os"

	"github.com/waza-isolate/waza/runner/guest"
)

func main() {
	if len(os.Args) > 1 && os.Args[1] == "guest" {
		if err := guest.Main(); err != nil {
			fmt.Fprintln(os.Stderr, "waza guest:", err)
			os.Exit(1)
		}
		return
	}
}
