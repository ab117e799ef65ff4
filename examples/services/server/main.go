// Command sql is the MCP server of this example, on stdio: it hands statements to
// the database that DATABASE_URL names and gives back what that says.
//
// What it knows is in the database alone, which lasts as long as a trial.
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
