//go:build !linux

package guest

import (
	"errors"
	"net"
)

// OffersSockets returns false: the engine's containers have a kernel of their own.
func OffersSockets() bool { return false }

// handSocket fails: the runner offers no sockets.
func handSocket(*net.UnixConn, byte) (*net.UnixConn, error) { return nil, errors.ErrUnsupported }

func writeAtOnce(*net.UnixConn, []byte) int { return 0 }
