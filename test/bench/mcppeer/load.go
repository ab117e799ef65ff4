package mcppeer

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"strings"
	"time"
)

const (
	initialize  = `{"jsonrpc":"2.0","id":"i","method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"peer","version":"1"}}}`
	initialized = `{"jsonrpc":"2.0","method":"notifications/initialized"}`
)

// load holds the options of a measured client.
type load struct {
	url   string        // of a server over HTTP
	exec  bool          // start a server on stdio instead
	calls int           // number of measured calls
	warm  int           // number of calls before, not measured
	bytes int           // size of a request
	meet  string        // URL of a server to wait at for other clients, after warming up
	count int           // number of clients that wait for each other
	limit time.Duration // time limit
}

// Report is the output of a client. Micros are the durations of the measured calls in
// microseconds; Began and Ended are when the measurement started and ended, in microseconds
// since 1970.
type Report struct {
	Micros []int64 `json:"micros"`
	Began  int64   `json:"began"`
	Ended  int64   `json:"ended"`
}

func loadCommand(ctx context.Context, args []string) error {
	var l load
	flags := flag.NewFlagSet("load", flag.ContinueOnError)
	flags.StringVar(&l.url, "url", "", "the server's `URL`")
	flags.BoolVar(&l.exec, "exec", false, "start a server on stdio instead")
	flags.IntVar(&l.calls, "calls", 1, "calls that count")
	flags.IntVar(&l.warm, "warm", 0, "calls before them")
	flags.IntVar(&l.bytes, "bytes", 400, "bytes of one call")
	flags.StringVar(&l.meet, "meet", "", "`URL` of a server to meet others at before the calls that count")
	flags.IntVar(&l.count, "count", 1, "how many meet")
	flags.DurationVar(&l.limit, "limit", 2*time.Minute, "`TIME` that all of it may take")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if (l.url == "") == !l.exec {
		return errors.New("load needs -url or -exec")
	}
	ctx, cancel := context.WithTimeout(ctx, l.limit)
	defer cancel()
	report, err := l.run(ctx)
	if err != nil {
		return err
	}
	return json.NewEncoder(os.Stdout).Encode(report)
}

func (l load) run(ctx context.Context) (_ Report, err error) {
	c, err := l.connect(ctx)
	if err != nil {
		return Report{}, err
	}
	defer func() { err = errors.Join(err, c.close()) }()
	if err := greet(ctx, c); err != nil {
		return Report{}, err
	}
	call := callOf(l.bytes)
	for range l.warm {
		if err := ask(ctx, c, call); err != nil {
			return Report{}, err
		}
	}
	if err := l.meetOthers(ctx); err != nil {
		return Report{}, err
	}
	r := Report{Micros: make([]int64, 0, l.calls), Began: time.Now().UnixMicro()}
	for range l.calls {
		began := time.Now()
		if err := ask(ctx, c, call); err != nil {
			return r, err
		}
		r.Micros = append(r.Micros, time.Since(began).Microseconds())
	}
	r.Ended = time.Now().UnixMicro()
	return r, nil
}

func (l load) connect(ctx context.Context) (client, error) {
	if l.exec {
		return startStdio(ctx)
	}
	return &httpClient{url: l.url}, nil
}

func (l load) meetOthers(ctx context.Context) error {
	if l.meet == "" {
		return nil
	}
	c := &httpClient{url: l.meet}
	if err := greet(ctx, c); err != nil {
		return err
	}
	return ask(ctx, c, fmt.Appendf(nil, `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"meet","arguments":{"count":%d}}}`, l.count))
}

// callOf returns a request of the given size, or slightly longer if that is too short.
func callOf(bytes int) []byte {
	const head, tail = `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"echo","arguments":{"text":"`, `"}}}`
	return []byte(head + strings.Repeat("x", max(0, bytes-len(head)-len(tail))) + tail)
}

func greet(ctx context.Context, c client) error {
	if err := ask(ctx, c, []byte(initialize)); err != nil {
		return err
	}
	_, err := c.exchange(ctx, []byte(initialized), false)
	return err
}

// ask sends a request and checks that the response has a result.
func ask(ctx context.Context, c client, request []byte) error {
	answer, err := c.exchange(ctx, request, true)
	if err != nil {
		return err
	}
	var a struct {
		Result json.RawMessage `json:"result"`
	}
	if err := json.Unmarshal(answer, &a); err != nil || len(a.Result) == 0 {
		return fmt.Errorf("the server answered %q", answer)
	}
	return nil
}
