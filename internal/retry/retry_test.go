package retry_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/waza-isolate/waza/internal/retry"
)

var errBusy = errors.New("busy")

// What passes is attempted later each time, or as late as is asked for; the time in between
// is really waited.
func TestDo(t *testing.T) {
	const s = time.Second
	for name, test := range map[string]struct {
		fails []time.Duration // what each failing attempt asks to wait
		took  time.Duration
		says  string // of the error; empty for success
	}{
		"at once":                 {nil, 0, ""},
		"the third time":          {[]time.Duration{0, 0}, 3 * s, ""},
		"as late as it asks":      {[]time.Duration{7 * s}, 7 * s, ""},
		"no sooner than we would": {[]time.Duration{0, s}, 3 * s, ""},
		"a minute":                {[]time.Duration{60 * s}, 60 * s, ""},
		"too late":                {[]time.Duration{60*s + 1}, 0, "busy; it asks to wait for 1m0.000000001s, which is too long"},
		"never":                   {make([]time.Duration, 9), 7 * s, "busy, and so 4 times in a row"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				began, n := time.Now(), 0
				got, err := retry.Do(t.Context(), retry.Policy{Attempts: 4}, func(context.Context) (int, error) {
					if n++; n <= len(test.fails) {
						return 0, fmt.Errorf("try %d: %w", n, retry.Transient(errBusy, test.fails[n-1]))
					}
					return n, nil
				})
				if (test.says == "") != (err == nil) || err != nil && (!errors.Is(err, errBusy) || !strings.HasSuffix(err.Error(), test.says)) || err == nil && got != len(test.fails)+1 {
					t.Errorf("got %d, %v; want %q", got, err, test.says)
				}
				if took := time.Since(began); took != test.took {
					t.Errorf("took %s, want %s", took, test.took)
				}
			})
		})
	}
}

// No wait is longer than a minute, however many there are.
func TestLongestWait(t *testing.T) {
	var waits []time.Duration
	_, err := retry.Do(t.Context(), retry.Policy{Attempts: 10, Wait: func(_ context.Context, d time.Duration) error { waits = append(waits, d); return nil }},
		func(context.Context) (int, error) { return 0, retry.Transient(errBusy, 0) })
	if want := "[1s 2s 4s 8s 16s 32s 1m0s 1m0s 1m0s]"; fmt.Sprint(waits) != want || !errors.Is(err, errBusy) {
		t.Errorf("waited %v, want %s; %v", waits, want, err)
	}
}

func TestFailuresThatStay(t *testing.T) {
	n := 0
	if _, err := retry.Do(t.Context(), retry.Policy{Attempts: 4}, func(context.Context) (int, error) { n++; return 1, errBusy }); err != errBusy || n != 1 {
		t.Errorf("%v after %d attempts", err, n)
	}
}

// Who gives up meanwhile is let go at once, in an attempt and between two.
func TestGivenUp(t *testing.T) {
	gone := errors.New("gone")
	for name, inAttempt := range map[string]bool{"in an attempt": true, "between two": false} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithCancelCause(t.Context())
				began := time.Now()
				time.AfterFunc(100*time.Millisecond, func() { cancel(gone) })
				n := 0
				_, err := retry.Do(ctx, retry.Policy{Attempts: 4}, func(ctx context.Context) (int, error) {
					if n++; inAttempt {
						<-ctx.Done()
					}
					return 0, retry.Transient(errBusy, 30*time.Second)
				})
				if took := time.Since(began); !errors.Is(err, gone) || n != 1 || took != 100*time.Millisecond {
					t.Errorf("%v after %d attempts and %s", err, n, took)
				}
			})
		})
	}
}

// An operation that gave up is not retried by an outer retry.
func TestWithinAnother(t *testing.T) {
	n := 0
	now := retry.Policy{Wait: func(context.Context, time.Duration) error { return nil }}
	_, err := retry.Do(t.Context(), now, func(ctx context.Context) (int, error) {
		return retry.Do(ctx, now, func(context.Context) (int, error) { n++; return 0, retry.Transient(errBusy, 0) })
	})
	if n != 4 || !errors.Is(err, errBusy) || !strings.HasSuffix(err.Error(), "and so 4 times in a row") {
		t.Errorf("%v after %d attempts", err, n)
	}
}

func TestStatus(t *testing.T) {
	for status, want := range map[int]bool{200: false, 302: false, 400: false, 401: false, 404: false, 408: true, 429: true, 500: true, 503: true, 529: true} {
		if retry.TransientStatus(status) != want {
			t.Errorf("%d: %v", status, !want)
		}
	}
}

func TestAfter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for text, want := range map[string]time.Duration{
			"": 0, "x": 0, "-5": 0, "0": 0, " 7 ": 7 * time.Second, "1.5": 1500 * time.Millisecond, "1e300": 1e6 * time.Second, "Inf": 1e6 * time.Second, "NaN": 0,
			"Fri, 31 Dec 1999 23:59:59 GMT":                           0,
			time.Now().UTC().Add(time.Minute).Format(http.TimeFormat): time.Minute,
		} {
			if got := retry.RetryAfter(http.Header{"Retry-After": {text}}); got != want {
				t.Errorf("%q is %s, want %s", text, got, want)
			}
		}
	})
}
