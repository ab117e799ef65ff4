package main

import (
	"context"
	"database/sql"
	"errors"

	"github.com/mark3labs/mcp-go/mcp"
	"github.com/mark3labs/mcp-go/server"
)

type statement struct {
	SQL        string `json:"sql" jsonschema:"one statement, with $1, $2 for parameters"`
	Parameters []any  `json:"parameters,omitempty" jsonschema:"what stands for $1, $2"`
}

type changed struct {
	Rows int64 `json:"rows"`
}

type found struct {
	Columns []string `json:"columns"`
	Rows    [][]any  `json:"rows"`
}

// newServer offers the database as MCP tools.
func newServer(db *sql.DB) *server.MCPServer {
	srv := server.NewMCPServer("sql", "1.0.0", server.WithToolCapabilities(false), server.WithInputSchemaValidation())
	srv.AddTool(
		mcp.NewTool("execute",
			mcp.WithDescription("Run a statement that changes the database."),
			mcp.WithInputSchema[statement](), mcp.WithOutputSchema[changed]()),
		handle(func(ctx context.Context, s statement) (changed, error) {
			result, err := db.ExecContext(ctx, s.SQL, s.Parameters...)
			if err != nil {
				return changed{}, err
			}
			rows, err := result.RowsAffected()
			return changed{rows}, err
		}))
	srv.AddTool(
		mcp.NewTool("query",
			mcp.WithDescription("Read from the database."),
			mcp.WithInputSchema[statement](), mcp.WithOutputSchema[found](), mcp.WithReadOnlyHintAnnotation(true)),
		handle(func(ctx context.Context, s statement) (found, error) { return query(ctx, db, s) }))
	return srv
}

// query runs a statement in a transaction that cannot write.
func query(ctx context.Context, db *sql.DB, s statement) (found, error) {
	tx, err := db.BeginTx(ctx, &sql.TxOptions{ReadOnly: true})
	if err != nil {
		return found{}, err
	}
	defer func() { _ = tx.Rollback() }()
	rows, err := tx.QueryContext(ctx, s.SQL, s.Parameters...)
	if err != nil {
		return found{}, err
	}
	result := found{Rows: [][]any{}}
	result.Columns, err = rows.Columns()
	for err == nil && rows.Next() {
		row, places := make([]any, len(result.Columns)), make([]any, len(result.Columns))
		for i := range row {
			places[i] = &row[i]
		}
		err = rows.Scan(places...)
		for i, value := range row {
			if text, ok := value.([]byte); ok {
				row[i] = string(text)
			}
		}
		result.Rows = append(result.Rows, row)
	}
	return result, errors.Join(err, rows.Err(), rows.Close())
}

// handle turns a function into a tool. An error is a tool error, for the model to read, not a protocol error.
func handle[Args, Result any](call func(context.Context, Args) (Result, error)) server.ToolHandlerFunc {
	return mcp.NewTypedToolHandler(func(ctx context.Context, _ mcp.CallToolRequest, args Args) (*mcp.CallToolResult, error) {
		result, err := call(ctx, args)
		if err != nil {
			return mcp.NewToolResultError(err.Error()), nil
		}
		return mcp.NewToolResultStructuredOnly(result), nil
	})
}
