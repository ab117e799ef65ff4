//go:build !linux

package containers

import "errors"

func bridgeSeccomp() (string, error) {
	return "", errors.New("the filter for containers on a bridge is built on Linux only; set config.isolation.network to airtight")
}

// loneSeccomp leaves containers without a network to the engine's own profile.
func loneSeccomp() (string, error) { return "", nil }
