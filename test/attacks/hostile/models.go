package main

import (
	"context"
	"fmt"
	"net"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/waza-isolate/waza/sandbox"
	"github.com/waza-isolate/waza/test/attacks/part"
)

// modelActs returns the acts that use or spend more of models than they may.
func modelActs() map[string]act {
	return map[string]act{
		part.ModelPart: {agent: func(context.Context) []part.Word {
			named := askModel(part.ModelKeyName, "/chat/completions", "")
			return []part.Word{
				tried(part.ModelPart, askModel(part.ModelPart, "/organization/admin_api_keys/responses", "")),
				tried(part.ModelOverride, askModel(part.ModelOverride, "/chat/completions?$httpMethod=DELETE", "", "X-HTTP-Method-Override: DELETE")),
				{Attack: part.ModelKeyName, Won: strings.Contains(strings.ToLower(named), strings.ToLower(part.KeyHeader)), Detail: fmt.Sprintf("an answer of %d bytes", len(named))},
			}
		}},
		part.ModelLeft: {agent: func(context.Context) []part.Word {
			for range part.AskedOften {
				leaveModel(part.ModelLeft)
			}
			return []part.Word{tried(part.ModelLeft, "left")}
		}},
		part.ModelLater: {agent: func(context.Context) []part.Word {
			last := ""
			for range part.AskedOften {
				last = askModel(part.ModelLater, "/responses", `,"background":true`)
			}
			return []part.Word{tried(part.ModelLater, last)}
		}},
		part.ModelSeveral: {agent: func(context.Context) []part.Word {
			return []part.Word{tried(part.ModelSeveral, askModel(part.ModelSeveral, "/chat/completions", fmt.Sprintf(`,"n":%d`, part.AskedOften)))}
		}},
		part.ModelAtOnce: {agent: func(context.Context) []part.Word {
			var all sync.WaitGroup
			for range part.AskedOften {
				all.Go(func() { _ = askModel(part.ModelAtOnce, "/chat/completions", "") })
			}
			all.Wait()
			return []part.Word{tried(part.ModelAtOnce, "asked")}
		}},
	}
}

// modelRequest returns a request to the hostile provider, for an answer of AskedTokens tokens. The
// model's name says who asks.
func modelRequest(attack, path, more string, headers ...string) string {
	body := fmt.Sprintf(`{"model":"%s/%s","max_tokens":%d,"messages":[{"role":"user","content":"hi"}]%s}`, os.Args[2], attack, part.AskedTokens, more)
	return strings.Replace(request(sandbox.ModelHost, body, headers...), "POST /mcp", "POST /"+part.ModelProvider+path, 1)
}

func askModel(attack, path, more string, headers ...string) string {
	return send(sandbox.ModelHost, modelRequest(attack, path, more, headers...))
}

// leaveModel asks, and disconnects before the answer.
func leaveModel(attack string) {
	conn, err := net.DialTimeout("tcp", at(sandbox.ModelHost, serversPort), answerTime)
	if err != nil {
		return
	}
	_, _ = fmt.Fprint(conn, modelRequest(attack, "/chat/completions", ""))
	time.Sleep(300 * time.Millisecond) // until the provider has it
	_ = conn.Close()
}
