package probe

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

// Main runs the program that its first argument names.
func Main(args []string, stdin io.Reader, stdout io.Writer) error {
	if len(args) == 0 {
		return errors.New("usage: waza probe PROGRAM; it is started by waza run")
	}
	switch args[0] {
	case TryAll:
		return withAims(stdin, func(a Aims) error { return attackAll(a, stdout) })
	case Knock:
		return withAims(stdin, knock)
	case Watch:
		return watch(stdin, stdout)
	case Shared:
		return shared(stdin, stdout)
	}
	return fmt.Errorf("waza probe: no program %q", args[0])
}

func withAims(stdin io.Reader, do func(Aims) error) error {
	var a Aims
	if err := json.NewDecoder(stdin).Decode(&a); err != nil {
		return fmt.Errorf("aims: %w", err)
	}
	return do(a)
}

const (
	// patience is how long an attack waits for a response.
	patience = 2 * time.Second
	// attackLimit bounds one attack.
	attackLimit = 3 * time.Second
)

// result is the result of one attack.
type result struct {
	state  State
	detail string
}

func refused(err error) result              { return result{Refused, err.Error()} }
func out(format string, args ...any) result { return result{Out, fmt.Sprintf(format, args...)} }
func untried(why string) result             { return result{Untried, why} }

// unless returns a refusal with err, or [Out] if there is no error.
func unless(err error, done string) result {
	if err != nil {
		return refused(err)
	}
	return result{Out, done}
}

// anyOf tries things one after another. If try succeeds with one, it returns [Out] and done, a
// sentence about it; otherwise it returns why each failed.
func anyOf(things []string, done string, try func(string) error) result {
	errs := make([]error, 0, len(things))
	for _, thing := range things {
		err := try(thing)
		if err == nil {
			return out(done, thing)
		}
		errs = append(errs, err)
	}
	return result{Refused, summary(errs)}
}

// attempt is one attack. Each runs on its own OS thread, which ends with it, so that changes to
// the thread do not affect others.
type attempt struct {
	name string
	try  func(ctx context.Context, a Aims) result
}

// plain returns an attempt that has no target.
func plain(name string, try func() result) attempt {
	return attempt{name, func(context.Context, Aims) result { return try() }}
}

// attackAll runs all attacks in parallel, and then those that may end the guest and this
// process.
func attackAll(a Aims, stdout io.Writer) error {
	awaitAddresses()
	found := make(chan Finding)
	var trying sync.WaitGroup
	for _, at := range attempts() {
		trying.Go(func() { found <- carryOut(at, a) })
	}
	go func() { trying.Wait(); close(found) }()
	out := json.NewEncoder(stdout)
	var errs []error
	for f := range found {
		errs = append(errs, out.Encode(f))
	}
	for _, at := range riskyAttempts() {
		errs = append(errs, out.Encode(carryOut(at, a)))
	}
	return errors.Join(errs...)
}

func carryOut(at attempt, a Aims) Finding {
	ctx, cancel := context.WithTimeout(context.Background(), attackLimit)
	defer cancel()
	done := make(chan result, 1)
	go func() {
		runtime.LockOSThread() // and never unlocked
		a.attack = at.name
		done <- at.try(ctx, a)
	}()
	var r result
	select {
	case r = <-done:
	case <-time.After(attackLimit + patience):
		r = untried("it came to no end")
	}
	return Finding{Attack: at.name, State: r.state, Detail: strings.ToValidUTF8(r.detail[:min(len(r.detail), 300)], "?")}
}

func attempts() []attempt {
	return slices.Concat(networkAttempts(), linkAttempts(), nameAttempts(), kernelAttempts(), fileAttempts(), sharedAttempts())
}

const (
	// settling is how long to wait for IPv6 addresses of interfaces. Duplicate address
	// detection takes one or two seconds (RFC 4862, section 5.4).
	settling = 3 * time.Second
	// tentative is the flag of an address that cannot be used yet (if_addr.h).
	tentative = 0x40
)

// awaitAddresses waits until the IPv6 addresses of our interfaces can be used. Before that, an
// attack would fail only because it came too early.
func awaitAddresses() {
	for until := time.Now().Add(settling); time.Now().Before(until); time.Sleep(50 * time.Millisecond) {
		table, err := os.ReadFile("/proc/net/if_inet6")
		if err != nil || !hasTentative(string(table)) {
			return
		}
	}
}

// hasTentative reads /proc/net/if_inet6: address, index, prefix, scope, flags, name.
func hasTentative(table string) bool {
	for line := range strings.Lines(table) {
		fields := strings.Fields(line)
		if len(fields) < 5 {
			continue
		}
		if flags, err := strconv.ParseUint(fields[4], 16, 32); err == nil && flags&tentative != 0 {
			return true
		}
	}
	return false
}
