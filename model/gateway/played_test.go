package gateway

import (
	"context"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/waza-isolate/waza/eval"
	"github.com/waza-isolate/waza/evidence"
	"github.com/waza-isolate/waza/evidence/cassette"
	"github.com/waza-isolate/waza/model/recorded"
)

// A recorded provider is played without a network and a key: nothing differs for the agent, and in the
// record nothing but times and played. What was not asked before is refused, and the provider is not down.
func TestPlayed(t *testing.T) {
	t.Parallel()
	stream := "data: {\"id\":\"1\",\"choices\":[{\"delta\":{\"content\":\"hi\"}}]}\n\ndata: {\"choices\":[],\"usage\":{\"prompt_tokens\":9,\"completion_tokens\":1}}\n\ndata: [DONE]\n\n"
	streaming := strings.Replace(question, `{`, `{"stream":true,`, 1)
	s := over(t, func(w http.ResponseWriter, r *http.Request) {
		if r.ContentLength == int64(len(streaming)) {
			w.Header().Set("Content-Type", "text/event-stream")
			_, _ = w.Write([]byte(stream))
			return
		}
		say(answered)(w, r)
	})
	asked := []string{question, streaming, question}
	bodies := func(s *stand) (all []string) {
		for _, body := range asked {
			answer, got, err := s.post(t, chat, body)
			if err != nil || answer.StatusCode != http.StatusOK {
				t.Errorf("%v, %v", answer, err)
			}
			all = append(all, answer.Header.Get("Content-Type")+"\n"+got)
		}
		return all
	}
	live := bodies(s)
	calls := s.ended(t)
	sides, _, err := recorded.Record(func(yield func(evidence.ModelCall, error) bool) {
		for _, c := range calls {
			if !yield(c, nil) {
				return
			}
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	p := over(t, say("the provider was asked"), func(p *Provider, _ *eval.ModelLimits) {
		if p.Player, err = recorded.Play(sides["p"], recorded.Options{Clean: (&record{}).Clean}); err != nil {
			t.Fatal(err)
		}
		p.Transport, p.Key = nil, ""
	})
	if diff := cmp.Diff(live, bodies(p)); diff != "" {
		t.Error(diff)
	}
	answer, got, err := p.post(t, chat, strings.Replace(question, "hi", "ho", 1))
	if err != nil || answer.StatusCode != http.StatusBadRequest || !strings.Contains(got, `messages[0] - `) {
		t.Errorf("%v, %s, %v", answer, got, err)
	}
	if err := p.gateway.Down(context.Background()); err != nil {
		t.Error(err)
	}
	again := p.ended(t)
	if missed := again[3]; missed.Outcome != evidence.ModelRefused || !missed.Played {
		t.Errorf("%+v", missed)
	}
	for i := range calls {
		calls[i].Played = true
	}
	if diff := cmp.Diff(calls, again[:3], cmpopts.IgnoreTypes(time.Time{})); diff != "" {
		t.Error(diff)
	}
}

// A player that is live leaves what it has no answer to to the provider, and only that is not played.
func TestPlayedLive(t *testing.T) {
	t.Parallel()
	missed := 0
	player, err := recorded.Play(&cassette.Side{}, recorded.Options{Live: true, Missed: func(string) { missed++ }})
	if err != nil {
		t.Fatal(err)
	}
	s := over(t, say(answered), func(p *Provider, _ *eval.ModelLimits) { p.Player = player })
	answer, got, err := s.post(t, chat, question)
	if err != nil || answer.StatusCode != http.StatusOK || got != answered || missed != 1 {
		t.Errorf("%v, %s, %v, %d", answer, got, err, missed)
	}
	if c := s.only(t); c.Played || c.Outcome != evidence.ModelOK {
		t.Errorf("%+v", c)
	}
}
