package gateway

import (
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"
)

// BenchmarkOverhead asks a provider directly and through a gateway by turns, and reports
// the median of each and what the gateway adds.
func BenchmarkOverhead(b *testing.B) {
	body := `{"model":"m","messages":[{"role":"user","content":"` + strings.Repeat("word ", 4<<10) + `"}]}`
	s := over(b, func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		say(answered)(w, r)
	})
	ask := func(url string) time.Duration {
		began := time.Now()
		answer, err := s.client.Post(url, "application/json", strings.NewReader(body))
		if err != nil {
			b.Fatal(err)
		}
		_, _ = io.Copy(io.Discard, answer.Body)
		_ = answer.Body.Close()
		return time.Since(began)
	}
	s.gateway.allowed.limits.Requests = 1 << 30
	var direct, through []time.Duration
	for b.Loop() {
		direct = append(direct, ask(s.provider.URL+"/base/v1/chat/completions"))
		through = append(through, ask(s.url+chat))
	}
	median := func(all []time.Duration) float64 {
		slices.Sort(all)
		return float64(all[len(all)/2].Microseconds())
	}
	one, two := median(direct), median(through)
	b.ReportMetric(one, "µs-direct")
	b.ReportMetric(two, "µs-gateway")
	b.ReportMetric(two-one, "µs-added")
	b.ReportMetric(0, "ns/op")
}
