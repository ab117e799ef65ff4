// Package retry repeats requests with increasing delays, honoring the delay that the other
// side asks for. It interprets HTTP responses and sends no requests itself.
package retry

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"
)

const (
	defaultAttempts = 4
	firstWait       = time.Second
	// maxWait is the longest wait between two attempts.
	maxWait = time.Minute
)

// transient is an error after which another attempt may succeed.
type transient struct {
	error
	after time.Duration
}

func (p *transient) Unwrap() error { return p.error }

// Transient marks err as transient: another attempt may succeed after the given time, or 0
// if unknown.
func Transient(err error, after time.Duration) error { return &transient{err, after} }

// gaveUp marks an error that ends the attempts although it wraps a transient one.
type gaveUp struct{ error }

func (g *gaveUp) Unwrap() error { return g.error }

// Policy configures the attempts.
type Policy struct {
	Attempts int // default 4
	// Wait waits between two attempts; default [Sleep].
	Wait func(context.Context, time.Duration) error
}

// Do calls attempt until it succeeds, returns an error that is not [Transient], or the
// attempts are used up. It returns the last error with the reason for giving up, or the
// cause of ctx if that is done.
func Do[T any](ctx context.Context, p Policy, attempt func(context.Context) (T, error)) (T, error) {
	var none T
	wait, attempts := p.Wait, cmp.Or(p.Attempts, defaultAttempts)
	if wait == nil {
		wait = Sleep
	}
	for n, pause := 1, firstWait; ; n, pause = n+1, 2*pause {
		got, err := attempt(ctx)
		if ctx.Err() != nil {
			return none, context.Cause(ctx)
		}
		again, ok := errors.AsType[*transient](err)
		_, over := errors.AsType[*gaveUp](err)
		switch {
		case err == nil:
			return got, nil
		case !ok || over:
			return none, err
		case again.after > maxWait:
			return none, &gaveUp{fmt.Errorf("%w; it asks to wait for %s, which is too long", err, again.after)}
		case n >= attempts:
			return none, &gaveUp{fmt.Errorf("%w, and so %d times in a row", err, n)}
		}
		if err := wait(ctx, min(max(pause, again.after), maxWait)); err != nil {
			return none, err
		}
	}
}

// Sleep waits for d. It returns the cause of ctx if that is done first.
func Sleep(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// TransientStatus reports whether an HTTP status is transient, so that the same request may
// succeed later.
func TransientStatus(status int) bool {
	return status == http.StatusTooManyRequests || status == http.StatusRequestTimeout || status >= 500
}

// RetryAfter returns the delay in the Retry-After header (RFC 9110, section 10.2.3), which
// is a date or a number of seconds, here also with a fraction; 0 if absent.
func RetryAfter(header http.Header) time.Duration {
	text := strings.TrimSpace(header.Get("Retry-After"))
	if seconds, err := strconv.ParseFloat(text, 64); err == nil && seconds > 0 {
		return time.Duration(min(seconds, 1e6) * float64(time.Second))
	}
	if at, err := http.ParseTime(text); err == nil {
		return max(0, time.Until(at).Round(time.Second))
	}
	return 0
}
