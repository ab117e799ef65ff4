// Package offline keeps a command from fetching images, packages and repositories. Code that is
// about to fetch one calls [Check] first. The package does not affect models, remote MCP servers
// and hosts that servers may reach.
package offline

import (
	"context"
	"errors"
	"fmt"

	"github.com/waza-isolate/waza/internal/defence"
)

// ErrOffline means that something would have to be fetched.
var ErrOffline = errors.New("--offline fetches nothing")

type key struct{}

// Context returns a context in which fetching is forbidden.
func Context(ctx context.Context) context.Context { return context.WithValue(ctx, key{}, true) }

// Is reports whether fetching is forbidden in ctx.
func Is(ctx context.Context) bool { return ctx.Value(key{}) != nil && defence.Offline }

// Check returns an [ErrOffline] that names what would be fetched, if fetching is forbidden in ctx.
func Check(ctx context.Context, what string) error {
	if !Is(ctx) {
		return nil
	}
	return fmt.Errorf("%w, and this is missing: %s", ErrOffline, what)
}
