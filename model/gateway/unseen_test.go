package gateway

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/waza-isolate/waza/eval"
	"github.com/waza-isolate/waza/evidence"
)

// each is the maximum of tokens that the requests of these tests name.
const each = 1000

func askingFor(more string) string {
	return fmt.Sprintf(`{"model":"m","max_tokens":%d,"messages":[]%s}`, each, more)
}

// TestUnseen checks that an agent cannot spend more than its limits by asking so that no answer tells
// what it took. Each request may take 1000 tokens, and the trial 3000, so that the third is the last
// to be sent.
func TestUnseen(t *testing.T) {
	t.Parallel()
	const text = `"choices":[{"message":{"content":"x"},"finish_reason":"stop"}]`
	tests := map[string]struct {
		answer http.HandlerFunc
		leave  bool
	}{
		"no count":          {answer: say(`{` + text + `}`)},
		"a count of null":   {answer: say(`{` + text + `,"usage":null}`)},
		"a count of 0":      {answer: say(`{` + text + `,"usage":{"prompt_tokens":0,"completion_tokens":0}}`)},
		"no output":         {answer: say(`{` + text + `,"usage":{"prompt_tokens":7}}`)},
		"negative":          {answer: say(`{` + text + `,"usage":{"prompt_tokens":-1,"completion_tokens":-100000}}`)},
		"no number":         {answer: say(`{` + text + `,"usage":{"prompt_tokens":NaN,"completion_tokens":NaN}}`)},
		"fractions":         {answer: say(`{` + text + `,"usage":{"prompt_tokens":0.1,"completion_tokens":1e-9}}`)},
		"a text":            {answer: say(`{` + text + `,"usage":{"prompt_tokens":"1","completion_tokens":"1"}}`)},
		"no answer":         {answer: say(``)},
		"many values":       {answer: say(`{"x":[` + strings.Repeat("0,", 1<<20) + `0],"usage":{"prompt_tokens":1,"completion_tokens":1},` + text + `}`)},
		"queued":            {answer: say(`{"id":"r","status":"queued"}`)},
		"stream without":    {answer: stream(`{"choices":[{"delta":{"content":"x"},"finish_reason":"stop"}]}`, "[DONE]")},
		"stream that fails": {answer: stream(`{"choices":[{"delta":{"content":"x"}}],"usage":{"prompt_tokens":1,"completion_tokens":1}}`, `{"error":{"message":"no"}}`)},
		"504":               {answer: func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusGatewayTimeout) }},
		"500":               {answer: func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "no", http.StatusInternalServerError) }},
		"redirect": {answer: func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, "/elsewhere", http.StatusFound)
		}},
		"compressed": {answer: func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Encoding", "gzip")
			say("x")(w, r)
		}},
		"broken off": {answer: func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", "1000")
			_, _ = io.WriteString(w, "{")
		}},
		"left before the answer": {leave: true, answer: func(_ http.ResponseWriter, r *http.Request) {
			_, _ = io.Copy(io.Discard, r.Body)
			<-r.Context().Done()
		}},
		"left within it": {leave: true, answer: func(w http.ResponseWriter, r *http.Request) {
			stream(`{"choices":[{"delta":{"content":"x"}}],"usage":{"prompt_tokens":1,"completion_tokens":1}}`)(w, r)
			_ = http.NewResponseController(w).Flush()
			_, _ = io.Copy(io.Discard, r.Body)
			<-r.Context().Done()
		}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var asked atomic.Int64
			s := over(t, func(w http.ResponseWriter, r *http.Request) { asked.Add(1); test.answer(w, r) }, limited(eval.ModelLimits{Tokens: 3 * each}, nil))
			for range 6 {
				s.leaveAfter(t, askingFor(""), test.leave)
			}
			if n := asked.Load(); n != 3 {
				t.Errorf("the provider was asked %d times", n)
			}
			if why := s.gateway.Overspent(); !strings.Contains(why, "whose answers did not say") {
				t.Errorf("%q", why)
			}
			for _, c := range s.ended(t) {
				if c.Usage != nil && c.Usage.Total() >= each {
					t.Errorf("an assumption is recorded: %+v", c.Usage)
				}
			}
		})
	}
}

// stream answers with events.
func stream(events ...string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		for _, event := range events {
			_, _ = io.WriteString(w, "data: "+event+"\n\n")
		}
	}
}

// leaveAfter asks, and if leave is set, hangs up when the provider has been asked for a while.
func (s *stand) leaveAfter(t *testing.T, body string, leave bool) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, s.url+chat, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	if leave {
		time.AfterFunc(100*time.Millisecond, cancel)
	}
	if answer, err := s.client.Do(r); err == nil {
		_, _ = io.Copy(io.Discard, answer.Body)
		_ = answer.Body.Close()
	}
	s.quiet()
}

// quiet waits until the calls that have begun have ended.
func (s *stand) quiet() {
	if s.gateway.begin() { // which orders the Add of others before this Wait
		s.gateway.calls.Done()
	}
	s.gateway.calls.Wait()
}

// TestSpentNothing checks that what no provider did anything for is not counted.
func TestSpentNothing(t *testing.T) {
	t.Parallel()
	for name, answer := range map[string]http.HandlerFunc{
		"400":  func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "no", http.StatusBadRequest) },
		"429":  func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "no", http.StatusTooManyRequests) },
		"503":  func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "no", http.StatusServiceUnavailable) },
		"529":  func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "no", statusOverloaded) },
		"dial": nil,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := over(t, answer, limited(eval.ModelLimits{Tokens: 1}, nil))
			if answer == nil {
				s.provider.Close()
			}
			for range 2 {
				s.leaveAfter(t, askingFor(""), false)
			}
			if why := s.gateway.Overspent(); why != "" {
				t.Error(why)
			}
		})
	}
}

// TestUnreadable checks that requests which readers may take in different ways, or for answers that
// nobody would see, reach no provider.
func TestUnreadable(t *testing.T) {
	t.Parallel()
	price := map[string]eval.Price{"m": {Input: 1, Output: 1}}
	tests := map[string]struct {
		body, says string
		cost       bool // only where cost is limited
	}{
		"no JSON":                 {body: "x", says: "one JSON object"},
		"empty":                   {body: " ", says: "one JSON object"},
		"an array":                {body: "[" + question + "]", says: "one JSON object"},
		"trailing":                {body: question + question, says: "one JSON object"},
		"a mark":                  {body: "\ufeff" + question, says: "one JSON object"},
		"UTF-16":                  {body: "{\x00}\x00", says: "one JSON object"},
		"not UTF-8":               {body: `{"n` + "\xff" + `":9}`, says: "one JSON object"},
		"twice":                   {body: askingFor(`,"max_tokens":1`), says: "the same to some"},
		"n twice":                 {body: askingFor(`,"n":1,"n":100`), says: "the same to some"},
		"model twice":             {body: askingFor(`,"model":"dear"`), says: "the same to some"},
		"other case":              {body: askingFor(`,"Max_Tokens":1`), says: "the same to some"},
		"Google's":                {body: askingFor(`,"maxTokens":1`), says: "the same to some"},
		"escaped":                 {body: askingFor(`,"max\u005ftokens":1`), says: "the same to some"},
		"to a NUL":                {body: askingFor(`,"max_tokens\u0000x":1`), says: "the same to some"},
		"twice within":            {body: askingFor(`,"generationConfig":{"candidateCount":1,"candidate_count":9}`), says: "the same to some"},
		"many":                    {body: askingFor(members(2000)), says: "more than 1024 members"},
		"a fraction":              {body: `{"max_tokens":1.5}`, says: "whole number"},
		"an exponent":             {body: `{"n":1e3}`, says: "whole number"},
		"a text":                  {body: `{"n":"100"}`, says: "whole number"},
		"negative":                {body: `{"max_tokens":-1}`, says: "whole number"},
		"huge":                    {body: `{"max_tokens":99999999999999999999}`, says: "whole number"},
		"a list":                  {body: `{"n":[100]}`, says: "whole number"},
		"background":              {body: askingFor(`,"background":true`), says: "comes later"},
		"background of a text":    {body: askingFor(`,"background":"true"`), says: "comes later"},
		"background in capitals":  {body: askingFor(`,"BackGround":1`), says: "comes later"},
		"deferred":                {body: askingFor(`,"deferred":true`), says: "comes later"},
		"web search":              {body: askingFor(`,"tools":[{"type":"web_search"}]`), says: "no count of tokens shows", cost: true},
		"code":                    {body: askingFor(`,"tools":[{"type":"function","name":"f"},{"type":"code_interpreter"}]`), says: "no count of tokens shows", cost: true},
		"search of Anthropic":     {body: askingFor(`,"tools":[{"type":"web_search_20250305","name":"web_search"}]`), says: "no count of tokens shows", cost: true},
		"search of Google":        {body: askingFor(`,"tools":[{"functionDeclarations":[],"googleSearch":{}}]`), says: "no count of tokens shows", cost: true},
		"a tool of two types":     {body: askingFor(`,"tools":[{"type":"function","Type":"web_search"}]`), says: "no count of tokens shows", cost: true},
		"search in chat":          {body: askingFor(`,"web_search_options":{}`), says: "no count of tokens shows", cost: true},
		"servers of the provider": {body: askingFor(`,"mcp_servers":[{}]`), says: "no count of tokens shows", cost: true},
		"a dear tier":             {body: askingFor(`,"service_tier":"priority"`), says: "no count of tokens shows", cost: true},
		"fast":                    {body: askingFor(`,"speed":"fast"`), says: "no count of tokens shows", cost: true},
		"speech":                  {body: askingFor(`,"modalities":["text","audio"]`), says: "no count of tokens shows", cost: true},
		"pictures":                {body: askingFor(`,"generation_config":{"responseModalities":["IMAGE"]}`), says: "no count of tokens shows", cost: true},
		"other models":            {body: askingFor(`,"models":["dear"]`), says: "no count of tokens shows", cost: true},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			reached := 0
			answer := func(w http.ResponseWriter, r *http.Request) { reached++; say(answered)(w, r) }
			s := over(t, answer, limited(eval.ModelLimits{Cost: 1000}, price))
			got, text, err := s.post(t, chat, test.body)
			if err != nil || got.StatusCode != http.StatusBadRequest || !strings.Contains(text, test.says) || reached != 0 {
				t.Errorf("%v, %v, %s, reached %d times", err, got, text, reached)
			}
			if calls := s.ended(t); len(calls) > 0 {
				t.Errorf("%d calls", len(calls))
			}
			if test.cost {
				s := over(t, answer)
				if got, text, err := s.post(t, chat, test.body); err != nil || got.StatusCode != http.StatusOK {
					t.Errorf("without a limit of cost: %v, %v, %s", err, got, text)
				}
			}
		})
	}
}

func members(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, `,"x%d":1`, i)
	}
	return b.String()
}

// TestCompressedRequest checks that what the gateway cannot read is not sent.
func TestCompressedRequest(t *testing.T) {
	t.Parallel()
	s := over(t, func(_ http.ResponseWriter, r *http.Request) { t.Errorf("it was sent: %v", r.Header) })
	r, _ := http.NewRequestWithContext(t.Context(), http.MethodPost, s.url+chat, strings.NewReader(question))
	r.Header.Set("Content-Encoding", "br")
	answer, err := s.client.Do(r)
	if err != nil || answer.StatusCode != http.StatusBadRequest {
		t.Fatalf("%v, %v", err, answer)
	}
	_ = answer.Body.Close()
}

// TestSeveralAnswers checks that a request for several answers counts as as many requests, and is
// only sent if all of them fit.
func TestSeveralAnswers(t *testing.T) {
	t.Parallel()
	prices := map[string]eval.Price{"m": {Input: 1, Output: 1000}} // a dollar for 1000 tokens of output
	tests := map[string]struct {
		limits eval.ModelLimits
		more   string
		status int
	}{
		"fits":              {eval.ModelLimits{Requests: 4, Tokens: 5000, Cost: 5}, `,"n":4`, http.StatusOK},
		"requests":          {eval.ModelLimits{Requests: 4}, `,"n":5`, http.StatusTooManyRequests},
		"tokens":            {eval.ModelLimits{Tokens: 3999}, `,"n":4`, http.StatusTooManyRequests},
		"cost":              {eval.ModelLimits{Cost: 3.9}, `,"n":4`, http.StatusTooManyRequests},
		"best of":           {eval.ModelLimits{Tokens: 3999}, `,"n":1,"best_of":4`, http.StatusTooManyRequests},
		"candidates":        {eval.ModelLimits{Tokens: 3999}, `,"generation_config":{"candidate_count":4}`, http.StatusTooManyRequests},
		"the larger":        {eval.ModelLimits{Tokens: 39999}, `,"n":2,"max_completion_tokens":20000`, http.StatusTooManyRequests},
		"beyond counting":   {eval.ModelLimits{Tokens: 1 << 60}, `,"n":9223372036854775807,"max_completion_tokens":9223372036854775807`, http.StatusTooManyRequests},
		"one that does not": {eval.ModelLimits{Tokens: 10}, ``, http.StatusOK},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := over(t, say(answered), limited(test.limits, prices))
			if answer, text, err := s.post(t, chat, askingFor(test.more)); err != nil || answer.StatusCode != test.status {
				t.Errorf("%v, %v, %s", err, answer, text)
			}
		})
	}
}

// TestSideBySide checks that requests which may exceed a limit together wait for each other, that
// those within it do not, and that one which waits ends with its agent.
func TestSideBySide(t *testing.T) {
	for name, test := range map[string]struct {
		limits  eval.ModelLimits
		at      int // once
		in, all int // requests, and those that are sent
	}{
		"tokens":   {eval.ModelLimits{Tokens: 2500}, 2, 50, 21}, // a call takes 120
		"cost":     {eval.ModelLimits{Cost: 2.5}, 2, 50, 50},
		"one":      {eval.ModelLimits{Tokens: 100}, 1, 50, 1},
		"no limit": {eval.ModelLimits{}, 50, 50, 50},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var at, most, all atomic.Int64
			s := over(t, func(w http.ResponseWriter, r *http.Request) {
				for n := at.Add(1); ; {
					if m := most.Load(); n <= m || most.CompareAndSwap(m, n) {
						break
					}
				}
				all.Add(1)
				time.Sleep(100 * time.Millisecond)
				at.Add(-1)
				say(answered)(w, r)
			}, limited(test.limits, map[string]eval.Price{"m": {Output: 1000}}))
			var asking sync.WaitGroup
			for range test.in {
				asking.Go(func() { _, _, _ = s.post(t, chat, askingFor("")) })
			}
			asking.Wait()
			if most.Load() > int64(test.at) || all.Load() != int64(test.all) && test.limits.Cost == 0 {
				t.Errorf("%d at once, %d in all", most.Load(), all.Load())
			}
		})
	}
	synctest.Test(t, func(t *testing.T) {
		a := newAllowance(eval.ModelLimits{Tokens: 10})
		one := claim{answers: 1, priced: true}
		one.usage.Output = 10
		ctx, leave := context.WithCancelCause(t.Context())
		h, _ := a.take(ctx, one, leave)
		time.AfterFunc(time.Second, func() { leave(errors.New("left")) })
		if h == nil {
			t.Fatal("the first was refused")
		}
		if second, why := a.take(ctx, one, leave); second != nil || why != "" {
			t.Errorf("%v, %q", second, why)
		}
	})
}

// TestLeftInTheQueue checks the record of a request whose agent did not wait until it could be sent.
func TestLeftInTheQueue(t *testing.T) {
	t.Parallel()
	release := make(chan struct{})
	reached := make(chan struct{}, 2)
	s := over(t, func(w http.ResponseWriter, r *http.Request) {
		reached <- struct{}{}
		<-release
		say(answered)(w, r)
	}, limited(eval.ModelLimits{Tokens: 1500}, nil))
	var first sync.WaitGroup
	first.Go(func() { _, _, _ = s.post(t, chat, askingFor("")) })
	<-reached
	ctx, leave := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer leave()
	r, _ := http.NewRequestWithContext(ctx, http.MethodPost, s.url+chat, strings.NewReader(askingFor("")))
	if answer, err := s.client.Do(r); err == nil {
		_ = answer.Body.Close()
		t.Error("it was answered")
	}
	time.Sleep(100 * time.Millisecond) // else it might be sent when the first has ended, and be cut off
	close(release)
	first.Wait()
	calls := s.ended(t)
	if len(calls) != 2 || calls[1].Outcome != evidence.ModelCancelled || len(reached) != 0 {
		t.Errorf("recorded %+v", calls)
	}
	if got := s.gateway.allowed.usage.Total(); got != 120 {
		t.Errorf("%d tokens are counted", got)
	}
}
