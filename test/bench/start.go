package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/moby/moby/client"
)

// measureStart measures the time from the start of the executable to the first engine
// request of its first trial, with images present and a valid certificate.
func (b *bench) measureStart(ctx context.Context) (figures []Figure, err error) {
	proxy, host, err := startAPIProxy(b.engine, b.dir)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, proxy.server.Close()) }()
	eval, err := b.writeEval(oneCall("bridge"))
	if err != nil {
		return nil, err
	}
	through := *b
	through.env = []string{client.EnvOverrideHost + "=" + host}
	f := Figure{
		Name: "start_s", What: "seconds from the start of waza run --isolate to the first create request of its first trial, images there and certificate valid",
		Samples: map[string][]float64{},
	}
	for n := range b.sizes.Starts + 1 {
		proxy.take()
		out, err := through.runExecutable(ctx, "--isolate", eval)
		b.other = through.other
		if err != nil {
			return nil, err
		}
		if n == 0 {
			continue // this run created the certificate
		}
		calls := proxy.take()
		first := slices.IndexFunc(calls, ofTrial)
		if first < 0 {
			return nil, errors.New("the trial asked the engine for nothing")
		}
		f.Samples["start_s"] = append(f.Samples["start_s"], seconds(calls[first].began.Sub(out.began)))
		f.Notes = nil
		for _, c := range calls[:first+1] {
			f.Notes = append(f.Notes, fmt.Sprintf("at %4d ms, %4d ms: %s", c.began.Sub(out.began).Milliseconds(), c.took.Milliseconds(), c.what))
		}
	}
	f.Value = median(f.Samples["start_s"])
	return []Figure{f.atMost(0.3)}, nil
}

// ofTrial reports whether the request creates a network or container of a trial rather than
// of the run.
func ofTrial(c apiCall) bool {
	return strings.HasSuffix(c.what, "POST /networks/create") || strings.HasSuffix(c.what, "POST /containers/create") && !strings.HasSuffix(c.name, "-lease")
}
