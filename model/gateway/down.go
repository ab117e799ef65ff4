package gateway

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/waza-isolate/waza/eval"
	"github.com/waza-isolate/waza/evidence"
)

// checkTimeout bounds a request of our own to a provider.
const checkTimeout = 15 * time.Second

// Why a provider is no use, in classes: an agent that provokes one error is not excused by
// another.
const (
	downKey    = "refuses its key"
	downServer = "does not answer"
)

// classOf is the class of an answer's status, or of there being none; empty for a provider
// that can be asked.
func classOf(status int, err error) string {
	switch {
	case status == http.StatusUnauthorized, status == http.StatusForbidden:
		return downKey
	case err != nil, status >= 500:
		return downServer
	}
	return ""
}

// lastTurn remembers how a provider did with the last turn that was asked of it.
func (g *Gateway) lastTurn(c evidence.ModelCall, p Provider) {
	var err error
	switch {
	case !c.IsTurn(), c.Outcome == evidence.ModelCancelled, c.Outcome == evidence.ModelBudget:
		return
	case c.Outcome == evidence.ModelTransport:
		err = errors.New(c.Error)
	}
	class := classOf(c.Status, err)
	g.mu.Lock()
	defer g.mu.Unlock()
	if delete(g.down, p.Name); class != "" {
		g.down[p.Name] = class
	}
}

// Down asks each provider that failed the agent's last turn itself, for the list of its
// models, and returns what to do about the first that fails in the same way; nil where all
// can be asked. An agent may provoke errors, and so is not taken at its word.
func (g *Gateway) Down(ctx context.Context) error {
	g.mu.Lock()
	failed := make(map[string]string, len(g.down))
	for name, class := range g.down {
		failed[name] = class
	}
	g.mu.Unlock()
	for _, name := range sortedKeys(failed) {
		p := g.providers[name]
		status, err := p.check(ctx)
		if classOf(status, err) != failed[name] {
			continue
		}
		switch {
		case failed[name] == downKey:
			return errors.New(p.refusesKey(status))
		case err != nil:
			return fmt.Errorf("model provider %q cannot be reached, neither by waza itself: %s; look at config.models.%s.base_url and at the network", name, g.secrets.Blank(err.Error()), name)
		}
		return fmt.Errorf("model provider %q answers %d, also to waza itself; run again later, or name another provider in config.model", name, status)
	}
	return nil
}

// listPath is where providers of a kind list their models.
func listPath(kind string) string {
	switch kind {
	case eval.KindAnthropic:
		return "v1/models"
	case eval.KindGoogle:
		return "v1beta/models"
	}
	return "models"
}

// check asks for the list of models, and returns the status of the answer.
func (p Provider) check(ctx context.Context) (int, error) {
	ctx, cancel := context.WithTimeout(ctx, checkTimeout)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, p.BaseURL.JoinPath(listPath(p.Kind)).String(), nil)
	if err != nil {
		return 0, err
	}
	p.authorize(r.Header)
	answer, err := p.Transport.RoundTrip(r)
	if err != nil {
		return 0, err
	}
	defer func() { _ = answer.Body.Close() }()
	_, _ = io.CopyN(io.Discard, answer.Body, 64<<10) // so that the connection can be used again
	return answer.StatusCode, nil
}
