package guest

import (
	"errors"
	"time"
)

// pulse is how often either end looks whether the other is there.
const pulse = 2 * time.Second

// errSilent is the end of a session whose other end is not there any more.
var errSilent = errors.New("it no longer answers")

// peer is the other end of a session, as yamux knows it.
type peer interface {
	// Ping fails where no answer came for as long as the session is patient.
	Ping() (time.Duration, error)
	CloseChan() <-chan struct{}
}

// watchPulse calls lost when two pings in a row have no answer, until the session is
// over. One may be nobody's fault: after a machine stood still, time is up before
// anybody could answer.
func watchPulse(p peer, lost func(error)) {
	ticker := time.NewTicker(pulse)
	defer ticker.Stop()
	for {
		select {
		case <-p.CloseChan():
			return
		case <-ticker.C:
		}
		if _, err := p.Ping(); err == nil {
			continue
		}
		if _, err := p.Ping(); err == nil {
			continue
		}
		select {
		case <-p.CloseChan():
		default:
			lost(errSilent)
		}
		return
	}
}
