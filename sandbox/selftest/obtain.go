package selftest

import (
	"context"
	"fmt"
	"time"

	"github.com/waza-isolate/waza/evidence"
)

// Obtain is the certificate for a kind of sandbox: one that is kept, or a new one,
// which it keeps. allow names attacks that may get out; they are marked, and of all
// others that got out holes has a sentence each. A certificate with holes is probed
// anew each time, since they may be mended by then. say is told what takes a while,
// and what could not be kept.
func Obtain(ctx context.Context, b Backend, run string, kind evidence.SandboxKind, cache Cache, allow []string, say func(string)) (_ evidence.Certificate, holes []string, err error) {
	usable := func() (evidence.Certificate, bool) {
		c, ok := cache.Find(b.Describe(), kind, time.Now())
		return c, ok && len(Allow(&c, allow)) == 0
	}
	if c, ok := usable(); ok {
		return c, nil, nil
	}
	release, err := cache.lock(ctx)
	switch {
	case ctx.Err() != nil:
		return evidence.Certificate{}, nil, ctx.Err()
	case err != nil:
		say(fmt.Sprintf("the certificate of this run will not be kept: %v", err))
	default:
		defer release()
		if c, ok := usable(); ok { // somebody made it while we waited
			return c, nil, nil
		}
	}
	say("probing the sandbox; it is done once a day")
	c, err := Probe(ctx, b, run, kind)
	if err != nil {
		return c, nil, err
	}
	if release != nil {
		if err := cache.Keep(c); err != nil {
			say(fmt.Sprintf("the certificate of this run will not be kept: %v", err))
		}
	}
	holes = Allow(&c, allow)
	return c, holes, nil
}
