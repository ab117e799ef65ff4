package stub_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/waza-isolate/waza/internal/golden"
	"github.com/waza-isolate/waza/model/dialect"
)

var dialects = []dialect.Name{dialect.Chat, dialect.Responses, dialect.Messages, dialect.Generate}

const stockScript = `
turns:
  - say: I look for bolts.
    call: {tool: find_item, server: inventory, arguments: {query: "bolt <M6>", limit: 9007199254740993}}
  - calls:
      - {tool: reserve_item, arguments: {sku: "{{ result.items[0].sku }}", quantity: "{{ results[0].items.0.stock }}"}}
      - {tool: find_item, arguments: {}}
  - say: |-
      {{ results[1] }}: {{ result }},
      of {{ results[0].items[0] }}.
`

var stockTools = []string{"shell", "mcp__inventory__find_item", "mcp__inventory__reserve_item"}

// plays has an agent go through stockScript to its end.
func plays(a *agent) []answer {
	a.tools = stockTools
	a.says("Reserve bolts.")
	answers := []answer{a.asks()}
	a.gives(`{"items":[{"sku":"B-6","stock":9007199254740993}]}`)
	answers = append(answers, a.asks())
	a.gives("reserved", `[{"type":"text","text":"none left"}]`)
	return append(answers, a.asks())
}

func TestConversation(t *testing.T) {
	for _, name := range dialects {
		for _, how := range []struct {
			name            string
			stream, forgets bool
		}{{name: "whole"}, {name: "streamed", stream: true}, {name: "without ids", forgets: true}} {
			if how.forgets && name != dialect.Generate {
				continue // the others cannot do without
			}
			t.Run(fmt.Sprintf("%s/%s", name, how.name), func(t *testing.T) {
				a := &agent{T: t, handler: script(t, stockScript).Handler(), dialect: name, stream: how.stream, forgets: how.forgets}
				var got []string
				for _, one := range plays(a) {
					got = append(got, one.Text)
					for _, u := range one.Uses {
						got = append(got, u.Name+string(u.Arguments))
					}
				}
				want := []string{
					"I look for bolts.", `mcp__inventory__find_item{"limit":9007199254740993,"query":"bolt <M6>"}`,
					"", `mcp__inventory__reserve_item{"quantity":9007199254740993,"sku":"B-6"}`, `mcp__inventory__find_item{}`,
					"reserved: none left,\nof {\"sku\":\"B-6\",\"stock\":9007199254740993}.",
				}
				if diff := cmp.Diff(want, got); diff != "" {
					t.Error(diff)
				}
			})
		}
	}
}

// A stream adds up to the same response as without streaming, including the tokens.
func TestStreamsAddUp(t *testing.T) {
	for _, name := range dialects {
		t.Run(string(name), func(t *testing.T) {
			var read [2][]dialect.Response
			for i, stream := range []bool{false, true} {
				a := &agent{T: t, handler: script(t, stockScript).Handler(), dialect: name, stream: stream}
				for _, one := range plays(a) {
					read[i] = append(read[i], one.Response)
				}
			}
			if diff := cmp.Diff(read[0], read[1]); diff != "" {
				t.Errorf("-whole +streamed\n%s", diff)
			}
			for i, one := range read[0] {
				if one.ID == "" || one.Model != "stub-1" || one.Stop == "" || one.Usage == nil || one.Usage.Input < 5 || one.Usage.Output < 1 {
					t.Errorf("answer %d lacks something: %+v", i, one)
				}
			}
		})
	}
}

// TestGoldens compares every byte on the wire with golden files.
func TestGoldens(t *testing.T) {
	for _, name := range dialects {
		t.Run(string(name), func(t *testing.T) {
			var out bytes.Buffer
			for _, stream := range []bool{false, true} {
				a := &agent{T: t, handler: script(t, stockScript).Handler(), dialect: name, stream: stream}
				for i, one := range plays(a) {
					fmt.Fprintf(&out, "-- turn %d, stream %t: %s --\n%s\n", i+1, stream, one.header.Get("Content-Type"), one.body)
				}
			}
			file := filepath.Join("testdata", string(name)+".golden")
			golden.Check(t, file, out.String())
		})
	}
}

// One handler serves many parallel conversations, and a lost response is given
// again.
func TestParallelAndRetried(t *testing.T) {
	handler := script(t, stockScript).Handler()
	var all sync.WaitGroup
	for i := range 40 {
		all.Go(func() {
			a := &agent{T: t, handler: handler, dialect: dialects[i%len(dialects)], stream: i%2 == 0, tools: stockTools}
			a.says(fmt.Sprintf("Reserve bolts, %d.", i))
			for turn := range 3 {
				lost, got := a.tries(), a.tries()
				if !bytes.Equal(lost.body, got.body) {
					t.Errorf("asked again, the model says\n%s\nand not\n%s", got.body, lost.body)
				}
				uses := a.asks().Uses
				if want := []int{1, 2, 0}[turn]; len(uses) != want {
					t.Errorf("turn %d of %d calls %d tools, want %d", turn, i, len(uses), want)
					return
				}
				if len(uses) > 0 {
					a.gives(slices.Repeat([]string{`{"items":[{"sku":"B-6","stock":1}]}`}, len(uses))...)
				}
			}
		})
	}
	all.Wait()
}

// Messages that agents add to the history do not count as turns of the script.
func TestForeignTurns(t *testing.T) {
	for _, name := range dialects {
		t.Run(string(name), func(t *testing.T) {
			a := &agent{T: t, handler: script(t, stockScript).Handler(), dialect: name, tools: stockTools}
			a.says("This is your workspace.")
			a.items = append(a.items, dialect.Item{Role: dialect.Assistant, Text: "Got it."})
			a.says("Look around first.")
			a.items = append(a.items, dialect.Item{Role: dialect.Assistant, Uses: []dialect.Use{{ID: "own-1", Name: "shell", Arguments: json.RawMessage(`{}`)}}})
			a.gives("README")
			if got := a.asks(); got.Text != "I look for bolts." {
				t.Errorf("the model says %q", got.Text)
			}
			a.gives(`{"items":[{"sku":"B-6","stock":1}]}`)
			if got := a.asks(); len(got.Uses) != 2 || !strings.Contains(string(got.Uses[0].Arguments), "B-6") {
				t.Errorf("of what the tool answered the model makes %+v", got.Uses)
			}
		})
	}
}

// After the model's last message, the user may ask for more.
func TestTextsAreTurns(t *testing.T) {
	for _, name := range dialects {
		t.Run(string(name), func(t *testing.T) {
			a := &agent{T: t, handler: script(t, "turns: [{say: One.}, {say: Two.}]").Handler(), dialect: name}
			for _, want := range []string{"One.", "Two."} {
				a.says("And?")
				if got := a.asks(); got.Text != want {
					t.Errorf("the model says %q, want %q", got.Text, want)
				}
			}
			a.says("And?")
			got := a.tries()
			if want := "the script is at its end: turn 3 is asked for and there are 2"; got.status != 400 || got.Error != want {
				t.Errorf("status %d: %s", got.status, got.Error)
			}
		})
	}
}

// A client may leave the history to the provider.
func TestHistoryByReference(t *testing.T) {
	handler := script(t, stockScript).Handler()
	first := &agent{T: t, handler: handler, dialect: dialect.Responses, tools: stockTools}
	first.says("Reserve bolts.")
	got := first.asks()
	output := object{"type": "function_call_output", "call_id": got.Uses[0].ID, "output": `{"items":[{"sku":"B-6","stock":1}]}`}
	var whole struct{ Output []struct{ ID, Type string } }
	if err := json.Unmarshal(got.body, &whole); err != nil {
		t.Fatal(err)
	}
	for name, more := range map[string]object{
		"previous response": {"previous_response_id": got.ID, "input": []object{output}},
		"item references": {"input": []object{
			{"role": "user", "content": "Reserve bolts."}, {"type": "item_reference", "id": whole.Output[1].ID}, output,
		}},
	} {
		t.Run(name, func(t *testing.T) {
			body := composeResponses(nil, stockTools)
			for key, value := range more {
				body[key] = value
			}
			status, content := post(t, handler, "/responses", encoded(t, body))
			if status != 200 || !strings.Contains(content, `\"sku\":\"B-6\"`) {
				t.Errorf("status %d: %s", status, content)
			}
		})
	}
}

// Agents may send the results of parallel calls in any order.
func TestResultsOutOfOrder(t *testing.T) {
	for _, name := range dialects {
		text := "turns: [{calls: [{tool: a}, {tool: b}]}, {say: '{{ results[0] }} {{ results[1] }}'}]"
		a := &agent{T: t, handler: script(t, text).Handler(), dialect: name, tools: []string{"a", "b"}}
		a.says("Go.")
		a.asks()
		a.gives("first", "second")
		slices.Reverse(a.items[len(a.items)-1].Results)
		if got := a.asks(); got.Text != "first second" {
			t.Errorf("%s: the model says %q", name, got.Text)
		}
	}
}

// An agent may drop old parts of a history, or replace them by a summary.
func TestShortenedHistory(t *testing.T) {
	for _, name := range dialects {
		a := &agent{T: t, handler: script(t, "turns: [{call: {tool: a}}, {call: {tool: a}}, {call: {tool: b}}, {say: Done.}]").Handler(), dialect: name, tools: []string{"a", "b"}}
		a.says("Go.")
		for range 3 {
			a.asks()
			a.gives("yes")
		}
		last := a.items[len(a.items)-2:]
		a.items = nil
		a.says("Go. You called a already.")
		a.items = append(a.items, last...)
		if got := a.asks(); got.Text != "Done." {
			t.Errorf("%s: the model says %q and calls %+v", name, got.Text, got.Uses)
		}
	}
}
