package main

import (
	"errors"
	"fmt"

	"github.com/waza-isolate/waza/report/inspection"
	"github.com/waza-isolate/waza/runner"
)

// compare holds what a server lists against what is pinned of it.
func (i *inspector) compare(found *inspection.Server) {
	pin := i.kept.Pin(found.Name)
	if pin == nil || found.Failed != "" {
		return
	}
	found.Pin = &inspection.PinCheck{Lock: runner.LockPath(i.target.eval), Differences: pin.Differences(found.Offer)}
}

// pin keeps what the servers list, and the packages that they were installed from, where
// that was asked for: of all of them, or of none.
func (i *inspector) pin() error {
	if !i.options.pin {
		return nil
	}
	lock, err := runner.ReadLock(i.target.eval) // another may have written it meanwhile
	if err != nil {
		return err
	}
	var errs []error
	for n, found := range i.report.Servers {
		pin, err := found.Offer.Pin()
		switch {
		case found.Failed != "":
			err = errors.New("it could not be inspected")
		case len(found.Drift) > 0:
			err = fmt.Errorf("it listed something else a moment later: %s", found.Drift[0])
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("server %q cannot be pinned: %w", found.Name, err))
			continue
		}
		if build := i.plans[n].Servers[0].Build; build != nil && build.Entry != nil && !lock.Has(*build.Entry) {
			lock = lock.With(*build.Entry)
		}
		lock = lock.Pinned(found.Name, pin)
	}
	if len(errs) > 0 {
		return errors.Join(errs...)
	}
	if err := runner.WriteLock(i.target.eval, lock); err != nil {
		return err
	}
	for _, found := range i.report.Servers {
		fmt.Fprintf(i.stderr, "pinned %s in %s\n", found.Name, runner.LockPath(i.target.eval))
	}
	return nil
}
