package main

import (
	"context"
	"errors"

	"github.com/mark3labs/mcp-go/mcp"
	"github.com/mark3labs/mcp-go/server"
)

type findArgs struct {
	SKU  string `json:"sku,omitempty" jsonschema:"for example BRG-6204"`
	Name string `json:"name,omitempty" jsonschema:"the whole name of the item"`
}

type listArgs struct {
	Warehouse string `json:"warehouse,omitempty" jsonschema:"harbour, mill or quarry; all of them when left out"`
}

type listResult struct {
	Items []Item `json:"items"`
}

type reserveArgs struct {
	SKU      string `json:"sku"`
	Quantity int    `json:"quantity" jsonschema:"units to reserve, at least 1"`
}

type reportArgs struct{}

type reportResult struct {
	Warehouses []WarehouseTotal `json:"warehouses"`
}

var errSKUOrName = errors.New("give either sku or name")

// newServer offers the stock as MCP tools.
func newServer(s *stock) *server.MCPServer {
	srv := server.NewMCPServer("inventory", "1.0.0",
		server.WithToolCapabilities(false),
		server.WithInputSchemaValidation(),
	)

	srv.AddTool(
		newTool[findArgs, Item]("find_item", "Look up one item by its SKU or its name.", readOnly),
		handle(func(args findArgs) (Item, error) {
			if (args.SKU == "") == (args.Name == "") {
				return Item{}, errSKUOrName
			}
			return s.Find(args.SKU, args.Name)
		}))

	srv.AddTool(
		newTool[listArgs, listResult]("list_items", "List the items of one warehouse, or of all.", readOnly),
		handle(func(args listArgs) (listResult, error) {
			items, err := s.List(args.Warehouse)
			return listResult{Items: items}, err
		}))

	srv.AddTool(
		newTool[reserveArgs, Reservation]("reserve_item", "Reserve units of an item. The answer has the reservation code.", writes),
		handle(func(args reserveArgs) (Reservation, error) {
			return s.Reserve(args.SKU, args.Quantity)
		}))

	srv.AddTool(
		newTool[reportArgs, reportResult]("stock_report", "Sum up the units and the value in each warehouse.", readOnly),
		handle(func(reportArgs) (reportResult, error) {
			return reportResult{Warehouses: s.Report()}, nil
		}))

	return srv
}

const (
	readOnly = true
	writes   = false
)

// newTool describes a tool with schemas derived from Go types.
func newTool[Args, Result any](name, description string, readOnly bool) mcp.Tool {
	return mcp.NewTool(name,
		mcp.WithDescription(description),
		mcp.WithInputSchema[Args](),
		mcp.WithOutputSchema[Result](),
		mcp.WithReadOnlyHintAnnotation(readOnly),
		mcp.WithDestructiveHintAnnotation(false),
		mcp.WithOpenWorldHintAnnotation(false),
	)
}

// handle turns a function into a tool. The result is sent as structured content and, for older clients, as
// the same JSON in text. An error is a tool error, for the model to read, not a protocol error.
func handle[Args, Result any](call func(Args) (Result, error)) server.ToolHandlerFunc {
	return mcp.NewTypedToolHandler(func(_ context.Context, _ mcp.CallToolRequest, args Args) (*mcp.CallToolResult, error) {
		result, err := call(args)
		if err != nil {
			return mcp.NewToolResultError(err.Error()), nil
		}
		return mcp.NewToolResultStructuredOnly(result), nil
	})
}
