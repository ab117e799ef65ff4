package client

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"

	"github.com/waza-isolate/waza/mcp/transport"
)

// Where a pause and the time limit end at once, the server's last error is returned, and not
// that the time is over.
func TestRetry_PauseAndLimitEndAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), firstPause)
		defer cancel()
		o := &options{}
		o.server.Upstream = &transport.Upstream{}
		refused := errors.New("connection refused")
		err := o.retry(ctx, func() error {
			if ctx.Err() != nil {
				return ctx.Err()
			}
			return refused
		})
		if !errors.Is(err, refused) {
			t.Errorf("got %v, want %v", err, refused)
		}
	})
}
