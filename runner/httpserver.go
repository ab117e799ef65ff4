package runner

import (
	"context"
	"errors"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"sync"
	"time"

	"github.com/waza-isolate/waza/mcpconfig"
	"github.com/waza-isolate/waza/runner/mcpproxy"
)

// startServer starts the program of a server that speaks HTTP in its box, once for
// the whole trial. launched says how.
func (tr *trialRun) startServer(ctx context.Context, s Server, launched mcpproxy.Server) (mcpproxy.Server, error) {
	resident, err := mcpproxy.StartResident(ctx, tr.rec, mcpproxy.Limits{}, launched)
	if err != nil {
		return launched, err
	}
	tr.residents = append(tr.residents, resident)
	launched.Launch = nil
	launched.Upstream = tr.upstreamIn(s)
	launched.Upstream.Process = resident
	return launched, nil
}

// upstreamIn is the endpoint of a server in its box, reached by the runner alone.
func (tr *trialRun) upstreamIn(s Server) *mcpproxy.Upstream {
	dial := func(ctx context.Context, _, _ string) (net.Conn, error) {
		return tr.sandbox.Dial(ctx, s.Name, s.Port)
	}
	return &mcpproxy.Upstream{
		URL: &url.URL{Scheme: "http", Host: net.JoinHostPort("localhost", strconv.Itoa(s.Port)), Path: s.Path},
		Transport: &http.Transport{
			DialContext:            dial,
			DisableCompression:     true,
			DisableKeepAlives:      true, // a dial is cheap here, and no request meets a connection at its end
			MaxResponseHeaderBytes: maxResponseHeader,
		},
		Events: s.Transport == mcpconfig.SSE,
	}
}

// maxResponseHeader is how much a server's response headers may be.
const maxResponseHeader = 64 << 10

// stopServers asks the programs that startServer started to end, and then makes
// them.
func (tr *trialRun) stopServers(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopTimeout)
	defer cancel()
	var all sync.WaitGroup
	for _, resident := range tr.residents {
		all.Go(func() { resident.Stop(ctx) })
	}
	all.Wait()
}

// awaitServers waits until what is left of them has ended with the sandbox.
func (tr *trialRun) awaitServers(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopTimeout)
	defer cancel()
	for _, resident := range tr.residents {
		select {
		case <-resident.Gone():
		case <-ctx.Done():
			return errors.New("the output of a server did not end with its sandbox")
		}
	}
	return nil
}

// stopTimeout bounds ending all servers of a trial.
const stopTimeout = 15 * time.Second
