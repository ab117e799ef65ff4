// Command inventory is the MCP server of this example: the stock of three warehouses, on stdio.
//
// Its data cannot be guessed: prices are odd, and serial numbers and reservation codes are derived. An agent
// that has the right answer has asked for it. Every process starts with the same stock and gives the same
// answers to the same calls, so trials can be repeated. Nothing is stored.
package main

import (
	"fmt"
	"os"

	"github.com/mark3labs/mcp-go/server"
)

func main() {
	if err := server.ServeStdio(newServer(newStock(catalogue()))); err != nil {
		fmt.Fprintln(os.Stderr, "inventory:", err)
		os.Exit(1)
	}
}
