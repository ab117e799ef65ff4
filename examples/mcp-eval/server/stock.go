package main

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
)

var (
	errUnknownItem      = errors.New("unknown item")
	errUnknownWarehouse = errors.New("unknown warehouse")
	errNotEnoughStock   = errors.New("not enough stock")
	errBadQuantity      = errors.New("quantity must be positive")
)

// Item is one kind of part, with its place and quantity.
type Item struct {
	SKU        string `json:"sku" jsonschema:"the stock keeping unit that identifies the item"`
	Name       string `json:"name"`
	Warehouse  string `json:"warehouse"`
	Serial     string `json:"serial" jsonschema:"serial number of the current batch"`
	PriceCents int    `json:"price_cents" jsonschema:"price of one unit, in cents"`
	Quantity   int    `json:"quantity" jsonschema:"units that are free to be reserved"`
}

// Reservation is what stock.Reserve grants.
type Reservation struct {
	Code       string `json:"code" jsonschema:"reservation code, needed for collection"`
	SKU        string `json:"sku"`
	Quantity   int    `json:"quantity"`
	TotalCents int    `json:"total_cents"`
	Remaining  int    `json:"remaining" jsonschema:"units still free after this reservation"`
}

// WarehouseTotal sums up one warehouse.
type WarehouseTotal struct {
	Warehouse  string `json:"warehouse"`
	Items      int    `json:"items" jsonschema:"kinds of parts"`
	Units      int    `json:"units" jsonschema:"free units of all kinds"`
	ValueCents int    `json:"value_cents"`
}

// stock is the inventory of one process, safe for concurrent use.
type stock struct {
	mu       sync.Mutex
	items    []Item // guarded by mu, ordered by SKU
	reserved int    // guarded by mu, reservations so far
}

func newStock(items []Item) *stock {
	items = slices.Clone(items)
	slices.SortFunc(items, func(a, b Item) int { return strings.Compare(a.SKU, b.SKU) })
	return &stock{items: items}
}

// Find returns the item with the SKU or the name, ignoring case.
func (s *stock) Find(sku, name string) (Item, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, item := range s.items {
		if strings.EqualFold(item.SKU, sku) || strings.EqualFold(item.Name, name) {
			return item, nil
		}
	}
	return Item{}, fmt.Errorf("%w: %s", errUnknownItem, sku+name)
}

// List returns the items of one warehouse; of all warehouses if warehouse is empty.
func (s *stock) List(warehouse string) ([]Item, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var found []Item
	for _, item := range s.items {
		if warehouse == "" || strings.EqualFold(item.Warehouse, warehouse) {
			found = append(found, item)
		}
	}
	if found == nil {
		return nil, fmt.Errorf("%w: %s", errUnknownWarehouse, warehouse)
	}
	return found, nil
}

// Reserve takes units from the free stock. If it returns an error, it has taken none.
func (s *stock) Reserve(sku string, quantity int) (Reservation, error) {
	if quantity < 1 {
		return Reservation{}, errBadQuantity
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	i := slices.IndexFunc(s.items, func(item Item) bool { return strings.EqualFold(item.SKU, sku) })
	if i < 0 {
		return Reservation{}, fmt.Errorf("%w: %s", errUnknownItem, sku)
	}
	item := &s.items[i]
	if quantity > item.Quantity {
		return Reservation{}, fmt.Errorf("%w: %d of %s asked for, %d free", errNotEnoughStock, quantity, item.SKU, item.Quantity)
	}
	item.Quantity -= quantity
	s.reserved++
	return Reservation{
		Code:       reservationCode(*item, quantity, s.reserved),
		SKU:        item.SKU,
		Quantity:   quantity,
		TotalCents: quantity * item.PriceCents,
		Remaining:  item.Quantity,
	}, nil
}

// reservationCode derives a code from the call, so that a repeated trial gets the same one, but nobody can
// easily guess it.
func reservationCode(item Item, quantity, number int) string {
	sum := sha256.Sum256(fmt.Appendf(nil, "%s/%d/%d", item.Serial, quantity, number))
	return fmt.Sprintf("R%d-%X", number, sum[:4])
}

// Report sums up each warehouse, ordered by name.
func (s *stock) Report() []WarehouseTotal {
	s.mu.Lock()
	defer s.mu.Unlock()
	totals := []WarehouseTotal{}
	for _, item := range s.items {
		i, found := slices.BinarySearchFunc(totals, item.Warehouse, func(t WarehouseTotal, name string) int {
			return strings.Compare(t.Warehouse, name)
		})
		if !found {
			totals = slices.Insert(totals, i, WarehouseTotal{Warehouse: item.Warehouse})
		}
		totals[i].Items++
		totals[i].Units += item.Quantity
		totals[i].ValueCents += item.Quantity * item.PriceCents
	}
	return totals
}
