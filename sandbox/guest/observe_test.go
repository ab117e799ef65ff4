package guest

import (
	"errors"
	"net"
	"strings"
	"testing"

	"github.com/hashicorp/yamux"

	"github.com/waza-isolate/waza/sandbox/observe"
)

// saying is a guest that reports the observation text the given number of times.
func saying(t *testing.T, text string, times int) *Guest {
	t.Helper()
	g, err := hostile(t, func(session *yamux.Session, _ net.Conn) {
		stream, err := session.Accept()
		if err != nil {
			return
		}
		l := linkOf(stream)
		if _, _, err := l.message(); err != nil || l.writeJSON(kindReply, reply{}) != nil {
			return
		}
		for range times {
			if l.write(kindData, []byte(text)) != nil {
				return
			}
		}
		_ = l.write(kindEOF, nil)
		l.drain()
	})
	must(t, err)
	return g
}

func TestWhatAGuestSawIsBounded(t *testing.T) {
	if _, err := saying(t, strings.Repeat(" ", maxPayload), 2*maxSeen/maxPayload).Observe(t.Context()); !errors.Is(err, errTooMuchSeen) {
		t.Errorf("a guest that says blanks without end: %v", err)
	}
	if _, err := saying(t, `{"files":7}`, 1).Observe(t.Context()); !errors.Is(err, ErrProtocol) {
		t.Errorf("a guest that says what is nothing: %v", err)
	}
	seen, err := saying(t, `{"files":[`+strings.Repeat(`{"path":"/a"},`, 1000)+`{}]}`, 1).Observe(t.Context())
	if err != nil || len(seen.Files) != observe.MaxFiles || seen.More[observe.Files] != 1001-observe.MaxFiles {
		t.Errorf("a guest of many files: %d, %v, %v", len(seen.Files), seen.More, err)
	}
}
