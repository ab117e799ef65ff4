package dialect

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func fuzzed(n byte) Name { return []Name{Chat, Responses, Messages, Generate}[n%4] }

func FuzzReadRequest(f *testing.F) {
	for i := range byte(4) {
		f.Add(i, []byte(`{"model":"m","input":"x","messages":[{"role":"user","content":[{"type":"tool_result","content":"x"}]}],"contents":[{"parts":[{"functionResponse":{"response":{"output":1}}}]}]}`))
	}
	f.Fuzz(func(t *testing.T, n byte, body []byte) {
		request, err := ReadRequest(fuzzed(n), "/models/m:generateContent", body)
		if err != nil {
			return
		}
		for _, item := range request.Items {
			checkUses(t, item.Uses)
		}
	})
}

func FuzzReadResponse(f *testing.F) {
	for _, c := range answers() {
		for i := range byte(4) {
			f.Add(i, c.kind, []byte(c.body))
		}
	}
	f.Fuzz(func(t *testing.T, n byte, kind string, body []byte) {
		response, err := ReadResponse(fuzzed(n), 200, kind, body)
		if err != nil {
			return
		}
		checkUses(t, response.Uses)
		if u := response.Usage; u != nil && (u.Input < 0 || u.Output < 0 || u.Cached+u.CacheWrites > u.Input || u.Reasoning > u.Output || u.Total() < 0) {
			t.Errorf("usage %+v", *u)
		}
	})
}

// FuzzWatch checks that it does not matter how an answer is cut into chunks.
func FuzzWatch(f *testing.F) {
	for _, c := range answers() {
		for i := range byte(4) {
			f.Add(i, c.kind, []byte(c.body), 7)
		}
	}
	f.Fuzz(func(t *testing.T, n byte, kind string, body []byte, at int) {
		whole, parts := NewWatch(fuzzed(n), kind), NewWatch(fuzzed(n), kind)
		_, _ = whole.Write(body)
		at = max(0, min(at, len(body)))
		_, _ = parts.Write(body[:at])
		_, _ = parts.Write(body[at:])
		if whole.Said() != parts.Said() {
			t.Errorf("said: %v, in parts %v", whole.Said(), parts.Said())
		}
		if diff := cmp.Diff(whole.Usage(body), parts.Usage(body)); diff != "" {
			t.Error(diff)
		}
	})
}

func checkUses(t *testing.T, uses []Use) {
	t.Helper()
	for _, use := range uses {
		if !json.Valid(use.Arguments) {
			t.Errorf("arguments %q", use.Arguments)
		}
	}
}

// FuzzReadAsking checks that what a request asks for is at least what each reader of it would find.
func FuzzReadAsking(f *testing.F) {
	for _, body := range []string{
		`{"model":"m","n":2,"max_tokens":7,"tools":[{"type":"function"}]}`, `{"generationConfig":{"candidateCount":3,"max_output_tokens":9}}`,
		`{"n":1,"N":2}`, `{"background":true}`, `{"tools":{"type":"x"},"modalities":1,"n":null}`, `[]`, ` `, "{\"n\xff\":2}",
	} {
		f.Add([]byte(body))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		asked, err := ReadAsking(Chat, body)
		if err != nil {
			return
		}
		var read struct {
			N         int64 `json:"n"`
			MaxTokens int64 `json:"max_tokens"`
		}
		if err := json.Unmarshal(body, &read); err != nil {
			t.Fatalf("%s: %v", body, err)
		}
		if asked.Answers < max(1, read.N) || asked.MaxTokens < read.MaxTokens {
			t.Errorf("%s asks for %+v", body, asked)
		}
	})
}
