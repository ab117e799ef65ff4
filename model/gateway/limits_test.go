package gateway

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/waza-isolate/waza/eval"
	"github.com/waza-isolate/waza/evidence"
	"github.com/waza-isolate/waza/model/dialect"
	"github.com/waza-isolate/waza/model/recorded"
)

func limited(l eval.ModelLimits, prices map[string]eval.Price) setting {
	return func(p *Provider, limits *eval.ModelLimits) { *limits, p.Prices = l, prices }
}

// TestLimits checks how many requests come through to a provider that counts 120 tokens
// for each, and what the next one gets.
func TestLimits(t *testing.T) {
	t.Parallel()
	price := map[string]eval.Price{"m": {Input: 10, Output: 100}} // 0.003 dollars a call
	tests := map[string]struct {
		limits eval.ModelLimits
		prices map[string]eval.Price
		served int
		says   string
	}{
		"requests":       {eval.ModelLimits{Requests: 3}, nil, 3, "more than 3 requests"},
		"tokens":         {eval.ModelLimits{Tokens: 300}, nil, 3, "360 tokens of 300"},
		"cost":           {eval.ModelLimits{Cost: 0.005}, price, 2, "0.0060 of 0.0050 US dollars"},
		"without prices": {eval.ModelLimits{Cost: 0.005}, nil, 0, "has no price"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := over(t, say(answered), limited(test.limits, test.prices))
			for i := range test.served {
				if answer, _, err := s.post(t, chat, question); err != nil || answer.StatusCode != http.StatusOK {
					t.Fatalf("request %d: %v, %v", i+1, answer, err)
				}
			}
			if why := s.gateway.Overspent(); why != "" {
				t.Errorf("overspent already: %s", why)
			}
			answer, got, err := s.post(t, chat, question)
			if err != nil || answer.StatusCode != http.StatusTooManyRequests || answer.Header.Get("X-Should-Retry") != "false" || !strings.Contains(got, test.says) {
				t.Errorf("%v, %v, %q", err, answer, got)
			}
			calls := s.ended(t)
			if last := calls[len(calls)-1]; last.Outcome != evidence.ModelBudget || last.Status != 429 || string(last.Response) != got {
				t.Errorf("recorded %+v", last)
			}
			if !strings.Contains(s.gateway.Overspent(), test.says) {
				t.Errorf("overspent: %q", s.gateway.Overspent())
			}
			if test.prices != nil && (calls[0].Cost == nil || fmt.Sprintf("%.4f", *calls[0].Cost) != "0.0030") {
				t.Errorf("cost %v", calls[0].Cost)
			}
		})
	}
}

// TestUncounted checks that an answer without a count of tokens takes what was asked for.
func TestUncounted(t *testing.T) {
	t.Parallel()
	s := over(t, say(`{"choices":[]}`), limited(eval.ModelLimits{Tokens: 2 * assumedOutput}, nil))
	for i, want := range []int{200, 200, 429} {
		if answer, _, err := s.post(t, chat, question); err != nil || answer.StatusCode != want {
			t.Errorf("request %d: %v, %v", i+1, answer, err)
		}
	}
	for _, c := range s.ended(t) {
		if c.Usage != nil {
			t.Errorf("an estimate is recorded: %+v", c.Usage)
		}
	}
}

// TestLeftEarly checks that what a provider counts at a stream's beginning is not taken for
// all of it where the agent leaves.
func TestLeftEarly(t *testing.T) {
	t.Parallel()
	s := over(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		_, _ = io.WriteString(w, "data: {\"choices\":[],\"usage\":{\"prompt_tokens\":1,\"completion_tokens\":1}}\n\n"+strings.Repeat(": padding\n", 1000)+"\n")
		_ = http.NewResponseController(w).Flush()
		<-r.Context().Done()
	}, limited(eval.ModelLimits{Tokens: 1000}, map[string]eval.Price{"m": {Input: 10, Output: 100}}))
	ctx, leave := context.WithCancel(t.Context())
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, s.url+chat, strings.NewReader(question))
	if err != nil {
		t.Fatal(err)
	}
	answer, err := s.client.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.CopyN(io.Discard, answer.Body, 9000); err != nil {
		t.Fatal(err)
	}
	leave()
	_ = answer.Body.Close()
	s.quiet()
	if why := refused(s.gateway.allowed); !strings.Contains(why, "tokens of 1000, counting the 131") {
		t.Errorf("refused for %q", why)
	}
	s.ended(t)
	if c := s.only(t); c.Cost == nil || *c.Cost != 0.00011 {
		t.Errorf("what it is known to have used costs %v", c.Cost)
	}
}

// TestExhausted checks that an agent that ignores refusals is stopped, and that
// nothing of it is recorded from then on.
func TestExhausted(t *testing.T) {
	t.Parallel()
	s := over(t, say(answered), limited(eval.ModelLimits{Requests: 1}, nil))
	for i := range maxRefused + 1 {
		select {
		case <-s.gateway.Exhausted():
			t.Fatalf("exhausted at request %d", i)
		default:
		}
		if _, _, err := s.post(t, chat, question); err != nil {
			t.Fatal(err)
		}
	}
	<-s.gateway.Exhausted()
	if _, _, err := s.post(t, chat, question); err == nil {
		t.Error("it still gets answers")
	}
	if calls := s.ended(t); len(calls) != maxRefused+1 {
		t.Errorf("%d calls", len(calls))
	}
}

// TestSeconds checks that time is counted over all calls, and that one under way is cut
// off when it is up.
func TestSeconds(t *testing.T) {
	for name, test := range map[string]struct {
		begins string
		status int
	}{"before": {"", http.StatusTooManyRequests}, "within": {"data: ", http.StatusOK}} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				rec := &record{}
				took, broken := ask(t, rec, eval.ModelLimits{Seconds: 30}, func(w http.ResponseWriter, r *http.Request) {
					if test.begins != "" {
						_, _ = io.WriteString(w, test.begins)
						_ = http.NewResponseController(w).Flush()
					}
					<-r.Context().Done()
				})
				if took != 30*time.Second || broken != (test.begins != "") {
					t.Errorf("it took %s, broken %t", took, broken)
				}
				if c := rec.calls[0]; c.Outcome != evidence.ModelBudget || c.Status != test.status || c.Error != errTimeUp.Error() {
					t.Errorf("recorded %+v", c)
				}
			})
		})
	}
}

// TestSecondsTogether checks that calls side by side use up the time together.
func TestSecondsTogether(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		a := newAllowance(eval.ModelLimits{Seconds: 30})
		var cut []time.Duration
		began := time.Now()
		begin := func() *hold {
			h, why := a.take(t.Context(), claim{priced: true}, func(err error) {
				if !errors.Is(err, errTimeUp) {
					t.Error(err)
				}
				cut = append(cut, time.Since(began))
			})
			if why != "" {
				t.Fatal(why)
			}
			return h
		}
		first, second, third := begin(), begin(), begin()
		time.Sleep(2 * time.Second) // 6 of 30 seconds
		a.give(third, dialect.Usage{}, 0, 0, 0)
		time.Sleep(6 * time.Second) // 18
		a.give(first, dialect.Usage{}, 0, 0, 0)
		time.Sleep(time.Minute)
		synctest.Wait()
		if len(cut) != 1 || cut[0] != 20*time.Second {
			t.Errorf("cut off after %v", cut)
		}
		a.give(second, dialect.Usage{}, 0, 0, 0)
		if why := refused(a); !strings.Contains(why, "30s together") {
			t.Errorf("%q", why)
		}
	})
}

// refused returns why the next call is refused.
func refused(a *allowance) string {
	h, why := a.take(context.Background(), claim{priced: true}, func(error) {})
	if h != nil {
		a.give(h, dialect.Usage{}, 0, 0, 0)
	}
	return why
}

func TestKeptInAll(t *testing.T) {
	t.Parallel()
	a := newAllowance(eval.ModelLimits{})
	a.keep(maxKeptInAll)
	if why := refused(a); !strings.Contains(why, "bytes") {
		t.Errorf("%q", why)
	}
}

// TestRefusedIsKept checks that records of refused requests count, and that an agent that
// continues is stopped for them.
func TestRefusedIsKept(t *testing.T) {
	t.Parallel()
	s := over(t, say(answered), limited(eval.ModelLimits{Requests: 1}, nil))
	s.gateway.allowed.keep(maxKeptInAll + maxMemory)
	if answer, _, err := s.post(t, chat, question); err != nil || answer.StatusCode != http.StatusTooManyRequests {
		t.Errorf("%v, %v", answer, err)
	}
	if c := s.only(t); c.Outcome != evidence.ModelBudget || string(c.Request) != question {
		t.Errorf("recorded %+v", c)
	}
	select {
	case <-s.gateway.Exhausted():
	default:
		t.Error("it may go on")
	}
}

// TestRefusals checks what each dialect's clients find in a refusal.
func TestRefusals(t *testing.T) {
	t.Parallel()
	for shape, want := range map[dialect.Name]string{
		dialect.Chat:      `{"error":{"code":"insufficient_quota","message":"m","param":null,"type":"insufficient_quota"}}`,
		dialect.Responses: `{"error":{"code":"insufficient_quota","message":"m","param":null,"type":"insufficient_quota"}}`,
		dialect.Messages:  `{"error":{"message":"m","type":"rate_limit_error"},"type":"error"}`,
		dialect.Generate:  `{"error":{"code":429,"details":[{"@type":"type.googleapis.com/google.rpc.QuotaFailure","violations":[{"description":"m","quotaId":"TrialPerDay"}]}],"message":"m","status":"RESOURCE_EXHAUSTED"}}`,
	} {
		body := overBudget("m").body(shape)
		if string(body) != want || !json.Valid(body) {
			t.Errorf("%s: %s", shape, body)
		}
		if read, err := dialect.ReadResponse(shape, 429, contentJSON, body); err != nil || read.Error != "m" {
			t.Errorf("%s reads as %+v, %v", shape, read, err)
		}
	}
}

func TestCost(t *testing.T) {
	t.Parallel()
	half, twice := 5.0, 20.0
	usage := dialect.Usage{Input: 1_000_000, Output: 100_000, Cached: 400_000, CacheWrites: 100_000}
	if got := costOf(eval.Price{Input: 10, Output: 50}, usage); got != 15 {
		t.Errorf("%v", got)
	}
	if got := costOf(eval.Price{Input: 10, Output: 50, Cached: &half, CacheWrites: &twice}, usage); got != 5+2+2+5 {
		t.Errorf("%v", got)
	}
}

// TestDigestOfManyValues checks that a body of more values than are decoded counts as its
// bytes, and still passes and is recorded.
func TestDigestOfManyValues(t *testing.T) {
	t.Parallel()
	one := `{"messages":[` + strings.Repeat("0,", 1<<20) + `0]}`
	s := over(t, say(answered))
	if answer, _, err := s.post(t, chat, one); err != nil || answer.StatusCode != http.StatusOK {
		t.Errorf("%v, %v", answer, err)
	}
	c := s.only(t)
	if string(c.Request) != one || c.Model != "" || c.Outcome != evidence.ModelOK {
		t.Errorf("recorded %d bytes, %q, %s", len(c.Request), c.Model, c.Outcome)
	}
	if c.RequestSHA256 == recorded.Digest((&record{}).Clean, http.MethodPost, c.Path, []byte(one+" ")) {
		t.Error("it was decoded")
	}
}

// TestHugeCounts checks that a provider that counts up to the largest number does not lift
// a limit.
func TestHugeCounts(t *testing.T) {
	t.Parallel()
	huge := fmt.Sprintf(`{"choices":[],"usage":{"prompt_tokens":%d,"completion_tokens":%[1]d}}`, int64(math.MaxInt64))
	for name, limits := range map[string]eval.ModelLimits{"tokens": {Tokens: 1e6}, "cost": {Cost: 1e6}} {
		s := over(t, say(huge), limited(limits, map[string]eval.Price{"m": {Input: 1e300, Output: 1e300}}))
		for _, want := range []int{http.StatusOK, http.StatusTooManyRequests, http.StatusTooManyRequests} {
			if answer, _, err := s.post(t, chat, question); err != nil || answer.StatusCode != want {
				t.Errorf("%s: %v, %v, want %d", name, answer, err, want)
			}
		}
		if c := s.ended(t)[0]; c.Cost == nil || *c.Cost != maxCost {
			t.Errorf("%s: cost %v", name, c.Cost)
		}
	}
	a := newAllowance(eval.ModelLimits{Tokens: 1e6})
	for range 3 {
		a.give(nil, dialect.Usage{Input: math.MaxInt64 / 2, Output: math.MaxInt64 / 2}, 0, maxCost, 0)
		if why := refused(a); why == "" {
			t.Errorf("%d tokens are within the limit", a.usage.Total())
		}
	}
	if got := costOf(eval.Price{Input: math.Inf(1)}, dialect.Usage{}); got != maxCost {
		t.Errorf("an infinite price gives %v", got)
	}
}
