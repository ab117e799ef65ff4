package main

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/mark3labs/mcp-go/client"
	"github.com/mark3labs/mcp-go/mcp"
)

// connect returns a client of a fresh server that holds the catalogue.
func connect(t *testing.T) *client.Client {
	t.Helper()
	c, err := client.NewInProcessClient(newServer(newStock(catalogue())))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	if err := c.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Initialize(t.Context(), mcp.InitializeRequest{}); err != nil {
		t.Fatal(err)
	}
	return c
}

func call(t *testing.T, c *client.Client, tool string, args map[string]any) *mcp.CallToolResult {
	t.Helper()
	result, err := c.CallTool(t.Context(), mcp.CallToolRequest{
		Params: mcp.CallToolParams{Name: tool, Arguments: args},
	})
	if err != nil {
		t.Fatalf("%s: %v", tool, err)
	}
	return result
}

func text(t *testing.T, result *mcp.CallToolResult) string {
	t.Helper()
	if len(result.Content) != 1 {
		t.Fatalf("%d content blocks, want 1", len(result.Content))
	}
	content, ok := mcp.AsTextContent(result.Content[0])
	if !ok {
		t.Fatalf("content is %T, want text", result.Content[0])
	}
	return content.Text
}

func TestTools(t *testing.T) {
	bearing := Item{SKU: "BRG-6204", Name: "Ball bearing 6204", Warehouse: "harbour", Serial: "HB-90417-KX", PriceCents: 1273, Quantity: 148}
	tests := []struct {
		name string
		tool string
		args map[string]any
		want any
	}{
		{"find by sku", "find_item", map[string]any{"sku": "brg-6204"}, bearing},
		{"find by name", "find_item", map[string]any{"name": "ball bearing 6204"}, bearing},
		{"list one warehouse", "list_items", map[string]any{"warehouse": "quarry"}, listResult{[]Item{
			{SKU: "MTR-2200", Name: "Servo motor 2.2 kW", Warehouse: "quarry", Serial: "QY-58204-ZR", PriceCents: 61739, Quantity: 3},
			{SKU: "PMP-0117", Name: "Gear pump 17 ml", Warehouse: "quarry", Serial: "QY-10988-FJ", PriceCents: 23461, Quantity: 0},
		}}},
		{"list all", "list_items", nil, listResult{catalogue()}},
		{"reserve all there is", "reserve_item", map[string]any{"sku": "MTR-2200", "quantity": 3}, Reservation{
			Code: "R1-4357A51F", SKU: "MTR-2200", Quantity: 3, TotalCents: 185217, Remaining: 0,
		}},
		{"report", "stock_report", map[string]any{}, reportResult{[]WarehouseTotal{
			{Warehouse: "harbour", Items: 3, Units: 853, ValueCents: 598243},
			{Warehouse: "mill", Items: 3, Units: 64, ValueCents: 151726},
			{Warehouse: "quarry", Items: 2, Units: 3, ValueCents: 185217},
		}}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			result := call(t, connect(t), tt.tool, tt.args)
			got := text(t, result)
			if result.IsError {
				t.Fatalf("tool error: %s", got)
			}
			want := marshal(t, tt.want)
			if diff := cmp.Diff(decode(t, want), decode(t, []byte(got))); diff != "" {
				t.Errorf("text (-want +got):\n%s", diff)
			}
			structured := marshal(t, result.StructuredContent)
			if diff := cmp.Diff(decode(t, want), decode(t, structured)); diff != "" {
				t.Errorf("structured content (-want +got):\n%s", diff)
			}
		})
	}
}

func marshal(t *testing.T, v any) []byte {
	t.Helper()
	b, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func decode(t *testing.T, data []byte) map[string]any {
	t.Helper()
	var v map[string]any
	if err := json.Unmarshal(data, &v); err != nil {
		t.Fatalf("%v in %s", err, data)
	}
	return v
}

func TestToolErrors(t *testing.T) {
	tests := []struct {
		name string
		tool string
		args map[string]any
		want string
	}{
		{"unknown sku", "find_item", map[string]any{"sku": "XXX-0000"}, "unknown item: XXX-0000"},
		{"neither sku nor name", "find_item", nil, errSKUOrName.Error()},
		{"both sku and name", "find_item", map[string]any{"sku": "a", "name": "b"}, errSKUOrName.Error()},
		{"unknown warehouse", "list_items", map[string]any{"warehouse": "attic"}, "unknown warehouse: attic"},
		{"reserve unknown sku", "reserve_item", map[string]any{"sku": "XXX-0000", "quantity": 1}, "unknown item: XXX-0000"},
		{"reserve too many", "reserve_item", map[string]any{"sku": "MTR-2200", "quantity": 4}, "not enough stock: 4 of MTR-2200 asked for, 3 free"},
		{"reserve none", "reserve_item", map[string]any{"sku": "MTR-2200", "quantity": 0}, "quantity must be positive"},
		{"reserve half a unit", "reserve_item", map[string]any{"sku": "MTR-2200", "quantity": 0.5}, "schema"},
		{"unknown argument", "find_item", map[string]any{"sku": "MTR-2200", "colour": "red"}, "schema"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			result := call(t, connect(t), tt.tool, tt.args)
			got := text(t, result)
			if !result.IsError {
				t.Fatalf("no tool error but %s", got)
			}
			if !strings.Contains(got, tt.want) {
				t.Errorf("error %q does not say %q", got, tt.want)
			}
		})
	}
}

func TestReserveLowersTheStock(t *testing.T) {
	c := connect(t)
	call(t, c, "reserve_item", map[string]any{"sku": "CPL-0042", "quantity": 4})
	if got := call(t, c, "reserve_item", map[string]any{"sku": "CPL-0042", "quantity": 3}); !got.IsError {
		t.Errorf("reserved more than was left: %s", text(t, got))
	}
	item := call(t, c, "find_item", map[string]any{"sku": "CPL-0042"})
	if got := decode(t, []byte(text(t, item)))["quantity"]; got != 2.0 {
		t.Errorf("%v units are left, want 2", got)
	}
}

func TestProcessesAgree(t *testing.T) {
	args := map[string]any{"sku": "SEL-0330", "quantity": 7}
	first, second := connect(t), connect(t)
	if a, b := text(t, call(t, first, "reserve_item", args)), text(t, call(t, second, "reserve_item", args)); a != b {
		t.Errorf("two processes answer the same call differently:\n%s\n%s", a, b)
	}
	if a, b := text(t, call(t, first, "reserve_item", args)), text(t, call(t, second, "find_item", args)); a == b {
		t.Errorf("a second reservation repeats the first: %s", a)
	}
}
