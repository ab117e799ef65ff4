// Package offline lets a command fetch nothing. What is about to fetch an image, a package or a
// repository asks [Check] first. Models, MCP servers elsewhere and hosts that servers may reach are
// not fetched, and nothing here is about them.
package offline

import (
	"context"
	"errors"
	"fmt"

	"github.com/waza-isolate/waza/internal/defence"
)

// ErrOffline means that something would have been fetched.
var ErrOffline = errors.New("--offline fetches nothing")

type key struct{}

// Context returns a context in which nothing is fetched.
func Context(ctx context.Context) context.Context { return context.WithValue(ctx, key{}, true) }

// Is reports whether nothing is fetched in ctx.
func Is(ctx context.Context) bool { return ctx.Value(key{}) != nil && defence.Offline }

// Check returns an [ErrOffline] that names what would be fetched, if nothing is in ctx.
func Check(ctx context.Context, what string) error {
	if !Is(ctx) {
		return nil
	}
	return fmt.Errorf("%w, and this is missing: %s", ErrOffline, what)
}
