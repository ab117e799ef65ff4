// Command peer is the program in the containers of the benchmark; see package mcppeer.
package main

import (
	"fmt"
	"os"

	"github.com/waza-isolate/waza/test/bench/mcppeer"
)

func main() {
	if err := mcppeer.Main(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "peer:", err)
		os.Exit(1)
	}
}
