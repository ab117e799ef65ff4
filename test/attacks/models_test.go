package attacks

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/waza-isolate/waza/sandbox/probe"
	"github.com/waza-isolate/waza/test/attacks/part"
)

// modelsAway is a hostile provider of models, which tells heard what an agent may not do. The model
// that a request names is its attack, with the task before it.
func modelsAway(heard *listener) http.HandlerFunc {
	var mu sync.Mutex
	spent := map[string]int64{} // by the agent's nonce and attack; guarded by mu
	return func(w http.ResponseWriter, r *http.Request) {
		var asked struct {
			Model      string
			MaxTokens  int64 `json:"max_tokens"`
			N          int64
			Background bool
		}
		if json.NewDecoder(r.Body).Decode(&asked) != nil {
			return
		}
		_, _ = io.Copy(io.Discard, r.Body)
		run, _, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, "/"), "/")
		task, attack, _ := strings.Cut(asked.Model, "/")
		nonce := part.Nonce(run, task, "model")
		tell := func(won bool, over string) {
			if won {
				heard.add(Arrival{At: heard.at, Arrival: probe.Arrival{Nonce: nonce, Attack: attack, Aim: r.URL.String(), Over: over}})
			}
		}
		mu.Lock()
		spent[nonce+attack] += max(1, asked.N) * asked.MaxTokens
		beyond := spent[nonce+attack] > part.SpentUnseen
		mu.Unlock()
		usage := fmt.Sprintf(`,"usage":{"prompt_tokens":1,"completion_tokens":%d}`, max(1, asked.N)*asked.MaxTokens)
		switch attack {
		case part.ModelPart:
			tell(true, "HTTP")
		case part.ModelOverride:
			tell(r.Header.Get("X-Http-Method-Override") != "" || strings.Contains(r.URL.RawQuery, "ethod"), "HTTP")
		case part.ModelKeyName:
			w.Header().Set(part.KeyHeader+strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer "), "1")
		case part.ModelLeft:
			<-r.Context().Done()
			tell(beyond, "requests that were left")
			return
		case part.ModelAtOnce:
			time.Sleep(time.Second) // until the others are here
			tell(beyond, "requests at once")
		case part.ModelLater:
			usage = `,"status":"queued"`
			tell(beyond && asked.Background, "requests in the background")
		default:
			tell(beyond, "one request")
		}
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, `{"choices":[{"message":{"role":"assistant","content":"x"},"finish_reason":"stop"}]`+usage+`}`)
	}
}
