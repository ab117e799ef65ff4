package main

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httputil"
	"path"
	"regexp"
	"strings"
	"sync"
	"testing"

	"github.com/waza-isolate/waza/internal/dockertest"
)

// killProxy is a proxy between a runner and the engine. It calls moment before it forwards a
// request and after the engine's response. If moment says so, it stops forwarding.
type killProxy struct {
	Host   string // for DOCKER_HOST
	moment func(when, request string) (stop bool)

	mu    sync.Mutex
	names map[string]string // of containers and networks, by id; guarded by mu
}

const (
	before = "before"
	after  = "after"
)

func newKillProxy(t *testing.T, moment func(when, request string) bool) *killProxy {
	t.Helper()
	k := &killProxy{moment: moment, names: map[string]string{}}
	k.Host = dockertest.Front(t, func(engine *httputil.ReverseProxy) http.Handler {
		engine.ModifyResponse = k.answered
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			keepBody(r)
			request := k.describe(r)
			if request != "" && k.moment(before, request) {
				panic(http.ErrAbortHandler)
			}
			ctx := r.Context()
			if strings.HasPrefix(request, "create ") {
				var cancel context.CancelFunc // as the engine does it, whether or not anybody waits
				ctx, cancel = context.WithCancel(context.WithoutCancel(ctx))
				defer cancel()
			}
			engine.ServeHTTP(w, r.WithContext(context.WithValue(ctx, requestKey{}, request)))
		})
	})
	return k
}

type requestKey struct{}

var versioned = regexp.MustCompile(`^/v[0-9.]+/`)

// describe describes a request that changes something on the engine, such as "start container
// x-1-agent", or returns "". Names are without the run's prefix.
func (k *killProxy) describe(r *http.Request) string {
	parts := strings.Split(versioned.ReplaceAllString(r.URL.Path, ""), "/")
	switch {
	case r.Method == http.MethodPost && len(parts) == 2 && parts[1] == "create":
		if parts[0] == "images" {
			return "import image"
		}
		return "create " + strings.TrimSuffix(parts[0], "s") + " " + short(nameOf(r))
	case r.Method == http.MethodPost && len(parts) == 3:
		return parts[2] + " " + strings.TrimSuffix(parts[0], "s") + " " + k.name(parts[1])
	case r.Method == http.MethodPut && path.Base(r.URL.Path) == "archive":
		return "fill container " + k.name(parts[1])
	case r.Method == http.MethodDelete && len(parts) == 2:
		return "remove " + strings.TrimSuffix(parts[0], "s") + " " + k.name(parts[1])
	}
	return ""
}

// nameOf returns the name of the object that a request creates.
func nameOf(r *http.Request) string {
	if name := r.URL.Query().Get("name"); name != "" {
		return name
	}
	body := keepBody(r)
	var named struct{ Name string }
	_ = json.Unmarshal(body, &named)
	return named.Name
}

// keepBody buffers the body of a small request, so that it can be forwarded after its sender is
// gone.
func keepBody(r *http.Request) []byte {
	if path.Base(r.URL.Path) != "create" || strings.HasSuffix(r.URL.Path, "/images/create") {
		return nil
	}
	body, _ := io.ReadAll(r.Body)
	r.Body = io.NopCloser(bytes.NewReader(body))
	return body
}

// short removes the run's id, which ends in six digits, from a name.
func short(name string) string {
	if name == "" {
		return "filler" // that alone has no name
	}
	return regexp.MustCompile(`^waza-.*?-[0-9a-f]{12}-[0-9a-f]{6}-`).ReplaceAllString(name, "")
}

func (k *killProxy) name(id string) string {
	k.mu.Lock()
	defer k.mu.Unlock()
	if name, ok := k.names[id]; ok {
		return name
	}
	return short(id)
}

func (k *killProxy) answered(r *http.Response) error {
	request, _ := r.Request.Context().Value(requestKey{}).(string)
	if request == "" {
		return nil
	}
	if _, name, ok := strings.Cut(request, "create "); ok && r.StatusCode == http.StatusCreated {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return err
		}
		r.Body = io.NopCloser(bytes.NewReader(body))
		var made struct{ ID string }
		if json.Unmarshal(body, &made) == nil && made.ID != "" {
			_, name, _ = strings.Cut(name, " ")
			k.mu.Lock()
			k.names[made.ID] = name
			k.mu.Unlock()
		}
	}
	if k.moment(after, request) {
		return http.ErrAbortHandler
	}
	return nil
}
