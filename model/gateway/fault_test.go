package gateway

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/waza-isolate/waza/eval"
	"github.com/waza-isolate/waza/evidence"
	"github.com/waza-isolate/waza/evidence/cassette"
	"github.com/waza-isolate/waza/model/dialect"
)

// faulty makes a fault of the second turn.
func faulty(f cassette.Fault) setting {
	f.Model, f.Nth = "p", 2
	next := cassette.NewFaults([]cassette.Fault{f}, "t", 1).Of(cassette.Models, "p")
	return func(p *Provider, _ *eval.ModelLimits) {
		p.Fault = func(string, string, []byte) *cassette.Fault { return next(nil) }
		p.Prices = map[string]eval.Price{"m": {Input: 1e6, Output: 1e6}}
	}
}

// A fault of a model is an error of the provider's kind, or an answer that comes late or not whole. The
// provider is not down for it, and what it was not asked costs nothing.
func TestFaults(t *testing.T) {
	t.Parallel()
	stream := "data: {\"id\":\"1\",\"choices\":[{\"delta\":{\"content\":\"hi\"}}]}\n\ndata: {\"choices\":[],\"usage\":{\"prompt_tokens\":9,\"completion_tokens\":1}}\n\ndata: [DONE]\n\n"
	for kind, outcome := range map[evidence.FaultKind]string{
		evidence.FaultRateLimit: evidence.ModelRefused, evidence.FaultServerError: evidence.ModelRefused, evidence.FaultDelay: evidence.ModelOK,
		evidence.FaultStall: evidence.ModelCancelled, evidence.FaultCut: evidence.ModelTransport,
	} {
		for _, streamed := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s/%t", kind, streamed), func(t *testing.T) {
				t.Parallel()
				f, asked := cassette.Fault{Kind: kind}, 0
				switch kind {
				case evidence.FaultRateLimit:
					f.RetryAfter, f.Message = 7, "slow down"
				case evidence.FaultDelay:
					f.DelayMS = 200
				}
				whole := answered
				if streamed {
					whole = stream
				}
				s := over(t, func(w http.ResponseWriter, _ *http.Request) {
					asked++
					if streamed {
						w.Header().Set("Content-Type", "text/event-stream")
						_, _ = w.Write([]byte(stream))
						return
					}
					say(answered)(w, nil)
				}, faulty(f))
				if _, got, err := s.post(t, chat, question); err != nil || got != whole {
					t.Fatal(got, err)
				}
				began := time.Now()
				ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
				defer cancel()
				if kind == evidence.FaultStall {
					time.AfterFunc(500*time.Millisecond, cancel)
				}
				r, err := http.NewRequestWithContext(ctx, http.MethodPost, s.url+chat, strings.NewReader(question))
				if err != nil {
					t.Fatal(err)
				}
				r.Header.Set("Content-Type", "application/json")
				answer, err := s.client.Do(r)
				if err != nil {
					t.Fatal(err)
				}
				defer answer.Body.Close()
				var body strings.Builder
				buffer := make([]byte, 1<<10)
				for n := 0; err == nil; {
					n, err = answer.Body.Read(buffer)
					body.Write(buffer[:n])
				}
				got, complete := body.String(), err.Error() == "EOF"
				ok := true
				switch kind {
				case evidence.FaultRateLimit:
					ok = complete && answer.StatusCode == 429 && answer.Header.Get("Retry-After") == "7" && strings.Contains(got, "slow down") && strings.Contains(got, "rate_limit_exceeded")
				case evidence.FaultServerError:
					ok = complete && answer.StatusCode == 500 && strings.Contains(got, "server_error")
				case evidence.FaultDelay:
					ok = complete && got == whole && time.Since(began) > 150*time.Millisecond
				default:
					ok = !complete && answer.StatusCode == 200 && strings.HasPrefix(whole[:len(whole)/2], got) && len(got) > len(whole)/4 // the rest may be held back for a secret that ends in it
				}
				if !ok {
					t.Errorf("the agent got %v, %q, %v", answer, got, err)
				}
				if err := s.gateway.Down(context.Background()); err != nil {
					t.Error(err)
				}
				calls := s.ended(t)
				if len(calls) != 2 || calls[0].Fault != "" || calls[1].Fault != kind || calls[1].Outcome != outcome {
					t.Fatalf("recorded %+v", calls)
				}
				refused := kind == evidence.FaultRateLimit || kind == evidence.FaultServerError
				if c := calls[1]; refused && (c.Cost != nil || c.Usage != nil || asked != 1) {
					t.Errorf("it cost %v and %v, with %d requests", c.Cost, c.Usage, asked)
				}
				if kinds := s.kinds(); len(kinds) != 1 || kinds[0] != evidence.EventFault {
					t.Errorf("events %v", kinds)
				}
			})
		}
	}
}

// Errors are written as the API of the request has them.
func TestFaultDialect(t *testing.T) {
	t.Parallel()
	s := over(t, say("the provider was asked"), func(p *Provider, _ *eval.ModelLimits) {
		p.Kind = eval.KindAnthropic
		p.Fault = func(string, string, []byte) *cassette.Fault {
			return &cassette.Fault{Model: "p", Kind: evidence.FaultRateLimit}
		}
	})
	answer, got, err := s.post(t, "/p/v1/messages", `{"model":"m","max_tokens":9,"messages":[{"role":"user","content":"hi"}]}`)
	if err != nil || answer.StatusCode != 429 || !strings.Contains(got, `"rate_limit_error"`) || answer.Header.Get("Retry-After") != "1" {
		t.Errorf("%v, %s, %v", answer, got, err)
	}
	if c := s.only(t); c.Fault != evidence.FaultRateLimit || c.Dialect != dialect.Messages {
		t.Errorf("%+v", c)
	}
}
