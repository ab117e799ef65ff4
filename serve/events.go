package serve

import (
	"context"
	"encoding/json"
	"net/http"
	"time"

	"github.com/waza-isolate/waza/mcp/sse"
)

// events tells a page how far a run has come, as server-sent events: "progress" with a
// [RunProgress] of what has changed, and "end" with the run's [State] when nobody is at
// work on it any more, which for one that is gone is unreadable.
func (s *Server) events(w http.ResponseWriter, r *http.Request) {
	id := r.PathValue("id")
	c, leave, err := s.watches.join(r.Context(), id)
	if err != nil {
		s.denyFor(w, r, err)
		return
	}
	defer leave()
	w.Header().Set("Content-Type", sse.ContentType)
	w.WriteHeader(http.StatusOK)
	if r.Method == http.MethodHead {
		return
	}
	s.tellAll(r.Context(), w, c)
}

// tellAll ends when the run has, the client goes away or is too slow, or the server ends.
func (s *Server) tellAll(ctx context.Context, w http.ResponseWriter, c *client) {
	control := http.NewResponseController(w)
	tick := time.NewTicker(s.watches.beat)
	defer tick.Stop()
	var told *tracker
	for version := 0; ; {
		select {
		case <-ctx.Done():
			return
		case <-c.news:
		case <-tick.C:
		}
		seen, any := s.watches.latest(c)
		if !any {
			continue
		}
		if seen.err != nil {
			_ = sendEvent(w, "end", StateUnreadable)
			return
		}
		if seen.told != told { // another run of that name
			told, version = seen.told, 0
		}
		now := s.watches.describe(seen, version)
		version = now.Version
		over := !seen.run.live()
		if sendEvent(w, "progress", now) != nil || over && sendEvent(w, "end", now.State) != nil || control.Flush() != nil || over {
			return
		}
	}
}

func sendEvent(w http.ResponseWriter, name string, v any) error {
	data, err := json.Marshal(v)
	if err != nil {
		return err
	}
	_, err = sse.Message{Type: name, Data: data}.WriteTo(w)
	return err
}
