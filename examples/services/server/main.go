// Command sql is the MCP server of this example, on stdio: it sends statements to the database at
// DATABASE_URL and returns the results.
//
// All of its data is in the database, which exists as long as the trial.
package main

import (
	"database/sql"
	"fmt"
	"os"

	_ "github.com/lib/pq"
	"github.com/mark3labs/mcp-go/server"
)

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "sql:", err)
		os.Exit(1)
	}
}

func run() error {
	url := os.Getenv("DATABASE_URL")
	if url == "" {
		return fmt.Errorf("DATABASE_URL is not set; give it the address of a PostgreSQL database")
	}
	db, err := sql.Open("postgres", url)
	if err != nil {
		return err
	}
	defer func() { _ = db.Close() }()
	return server.ServeStdio(newServer(db))
}
