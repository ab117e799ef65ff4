//go:build !linux

package guest

import (
	"errors"
	"net"
)

// OffersSockets returns false, because the engine runs in a virtual machine.
func OffersSockets() bool { return false }

// handSocket fails: the runner offers no sockets on this system.
func handSocket(*net.UnixConn, byte) (*net.UnixConn, error) { return nil, errors.ErrUnsupported }

func writeAtOnce(*net.UnixConn, []byte) int { return 0 }
