package gateway

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"testing"

	"github.com/waza-isolate/waza/eval"
	"github.com/waza-isolate/waza/internal/heavytest"
	"github.com/waza-isolate/waza/internal/memtest"
)

const gatewayRole = "gateway"

// roles are what a victim of this package's tests is.
func roles() map[string]memtest.Role {
	return map[string]memtest.Role{gatewayRole: func(ready func(string), stop <-chan struct{}) {
		provider := Provider{Name: "p", BaseURL: &url.URL{Scheme: "http", Host: "model"}, Transport: InProcess(say(answered))}
		g := New(&record{}, eval.ModelLimits{}, provider)
		front := httptest.NewServer(g)
		ready(front.URL)
		<-stop
		g.Close()
		front.Close()
	}}
}

// TestMemoryUnderAttack sends bodies of two-byte values, as many as are decoded and far
// more, to a gateway in another process.
func TestMemoryUnderAttack(t *testing.T) {
	heavytest.Mark(t)
	for _, values := range []int{1<<19 - 10, 4 << 20} {
		t.Run(fmt.Sprint(values), func(t *testing.T) {
			v := memtest.Start(t, gatewayRole)
			body := `{"messages":[` + strings.Repeat("0,", values) + `0]}`
			var all sync.WaitGroup
			for range 8 {
				all.Go(func() {
					answer, err := http.Post(v.Address+chat, contentJSON, strings.NewReader(body))
					if err != nil {
						t.Error(err)
						return
					}
					_, _ = io.Copy(io.Discard, answer.Body) // its end comes once the call is recorded
					_ = answer.Body.Close()
				})
			}
			all.Wait()
			http.DefaultClient.CloseIdleConnections()
			use := v.Use()
			t.Logf("peak %d MiB", use.Peak>>20)
			if use.Peak > 640<<20 {
				t.Errorf("the gateway took %d MiB", use.Peak>>20)
			}
		})
	}
}
