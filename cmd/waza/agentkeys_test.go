package main

import (
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync"
	"testing"

	"github.com/waza-isolate/waza/model/stub"
)

// keyed is providers of every kind at one address, with one key.
const keyed = `  model: openai/m
  models:
    openai: {base_url: "PROVIDER/v1", api_key_env: E2E_MODEL_KEY}
    anthropic: {base_url: "PROVIDER", api_key_env: E2E_MODEL_KEY}
    google: {base_url: "PROVIDER", api_key_env: E2E_MODEL_KEY}
`

// TestAgents_Keys checks that a provider of each kind gets its key from an agent, and that the key is
// in no container and no file of the runs.
func TestAgents_Keys(t *testing.T) {
	t.Parallel()
	data, err := os.ReadFile("../../examples/agents/model.yaml")
	if err != nil {
		t.Fatal(err)
	}
	script, err := stub.Parse("model.yaml", data)
	if err != nil {
		t.Fatal(err)
	}
	p := newAgentsProject(t)
	model, look := script.Handler(), make(chan func())
	var mu sync.Mutex
	headers := map[string]int{} // in which the key came
	provider := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		for _, header := range []string{"Authorization", "X-Api-Key", "X-Goog-Api-Key"} {
			if strings.TrimPrefix(r.Header.Get(header), "Bearer ") == modelKey {
				headers[header]++
			}
		}
		mu.Unlock()
		looked := make(chan struct{})
		select {
		case look <- func() { defer close(looked); p.inspectAll(modelKey) }:
			<-looked
			model.ServeHTTP(w, r)
		case <-r.Context().Done():
		}
	}))
	t.Cleanup(provider.Close)
	eval := p.read("eval.yaml")
	from, to := strings.Index(eval, "  model: stub"), strings.Index(eval, "  isolation:")
	p.write("eval.yaml", eval[:from]+strings.ReplaceAll(keyed, "PROVIDER", provider.URL)+eval[to:])
	p.env = append(p.env, "E2E_MODEL_KEY="+modelKey)
	c := p.start("run", "--isolate", "--task", "memory", "--run-dir", "run", "eval.yaml", "--executor",
		"claude=anthropic/m,codex=openai/m,gemini=google/m")
	for ended := false; !ended; {
		select {
		case inspect := <-look:
			inspect()
		case <-c.ended:
			ended = true
		}
	}
	c.waitFor(exitOK, runLimit)
	mu.Lock()
	defer mu.Unlock()
	if headers["Authorization"] == 0 || headers["X-Api-Key"] == 0 || headers["X-Goog-Api-Key"] == 0 {
		t.Errorf("the provider got its key in %v", headers)
	}
	noFileHolds(t, p.path("run"), modelKey)
	if printed := c.stdout.String() + c.stderr.String(); strings.Contains(printed, modelKey) {
		t.Errorf("printed: %s", printed)
	}
}
