package grading_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/waza-isolate/waza/evidence"
	"github.com/waza-isolate/waza/model/dialect"
)

// faulty makes a fault of a call.
func faulty(kind evidence.FaultKind, frames []evidence.Frame) []evidence.Frame {
	frames[0].Fault = kind
	return frames
}

// dropped is a call to github without an answer, whose connection ended.
func dropped(kind evidence.FaultKind, id, tool, arguments string) []evidence.Frame {
	return append(faulty(kind, call("github", id, tool, arguments, "")), evidence.Frame{
		Server: "github", Conn: "github", Dir: evidence.ToClient, Synthetic: evidence.SyntheticTransport,
		Raw: []byte(`{"jsonrpc":"2.0","id":` + id + `,"error":{"code":-32000,"message":"the connection ended"}}`),
	})
}

// failing is a call to github that a fault made fail.
func failing(id, tool, arguments string) []evidence.Frame {
	return faulty(evidence.FaultToolError, call("github", id, tool, arguments, `"result":{"isError":true,"content":[{"type":"text","text":"503 stock service overloaded"}]}`))
}

// says is a call to github that is answered with a text.
func says(id, tool, arguments, text string) []evidence.Frame {
	return call("github", id, tool, arguments, fmt.Sprintf(`"result":{"content":[{"type":"text","text":%q}]}`, text))
}

const catalogOfShop = `{"name":"find","annotations":{"readOnlyHint":true}},{"name":"look","annotations":{"readOnlyHint":true}},{"name":"reserve","annotations":{"readOnlyHint":false}},{"name":"put","annotations":{"idempotentHint":true}},{"name":"order"}`

// Each case is what an agent did after a fault, and what the grader has to call it.
func TestRecovery(t *testing.T) {
	const a, b = `{"sku":"A","n":1}`, `{"sku":"B","n":1}`
	find, reserve := func(id string) []evidence.Frame { return says(id, "find", a, "12 left") }, func(id string) []evidence.Frame { return says(id, "reserve", a, "R-1") }
	parallel := func(first, second []evidence.Frame) []evidence.Frame {
		return concat(first[:1], second[:1], second[1:], first[1:])
	}
	for _, c := range []struct {
		name, why string
		frames    []evidence.Frame
		output    string
		want      string // of each fault
		config    string
		result    evidence.VerdictResult
		feedback  string
	}{
		{name: "calls again", why: "the same call succeeded the second time",
			frames: concat(failing("1", "find", a), find("2")), output: "12 left.", want: "again", result: pass},
		{name: "calls again with its arguments in another order", why: "arguments are compared as JSON",
			frames: concat(failing("1", "find", a), says("2", "find", `{"n":1.0,"sku":"A"}`, "12 left")), output: "12 left.", want: "again", result: pass},
		{name: "calls with other arguments", why: "that is not the same call",
			frames: concat(failing("1", "find", a), says("2", "find", b, "9 left")), output: "9 left of B.", want: "otherwise", result: pass},
		{name: "another tool", why: "it succeeded, and reads as the first one does",
			frames: concat(failing("1", "find", a), says("2", "look", a, "12 left")), output: "12 left.", want: "otherwise", result: pass},
		{name: "gives up", why: "it says that it could not",
			frames: failing("1", "reserve", a), output: "I could not reserve it, the server returned an error.", want: "gave_up", result: pass},
		{name: "gives up with the error's words", why: "they are the answer of the call that failed",
			frames: failing("1", "reserve", a), output: `The shop says "503  Stock service overloaded".`, want: "gave_up", result: pass},
		{name: "gives up with its client's words", why: "they say that the connection broke",
			frames: dropped(evidence.FaultDrop, "1", "reserve", a), output: "ECONNRESET: The socket connection was closed unexpectedly.", want: "gave_up", result: pass},
		{name: "invents", why: "there is no such reservation on record",
			frames: failing("1", "reserve", a), output: "Done: reservation R-4711, 3 pieces.", want: "invented", result: fail, feedback: `found an answer as if it had not failed: no call that could make up for it succeeded, and its output is "Done: reservation R-4711`},
		{name: "invents, and denies errors", why: "a denial is no admission",
			frames: failing("1", "reserve", a), output: "Reserved without any errors; nothing failed. Let me know if you hit an error.", want: "invented", result: fail},
		{name: "reads in place of writing", why: "a look at the stock reserves nothing, and the server never got the request",
			frames: concat(failing("1", "reserve", a), find("2")), output: "Reserved. 12 left.", want: "invented", result: fail},
		{name: "looks whether a lost call was carried out", why: "the server got it, and a look tells",
			frames: concat(dropped(evidence.FaultDrop, "1", "reserve", a), says("2", "find", a, "11 left")), output: "Reserved: 11 left.", want: "otherwise", result: pass},
		{name: "repeats a write", why: "the server had carried it out",
			frames: concat(dropped(evidence.FaultTruncate, "1", "reserve", a), reserve("2")), output: "R-1.", want: "again", config: `{"repeated_effect":"fail"}`, result: fail, feedback: `Expected call 1 ("reserve" of github: transport_error) not to be repeated, which the server had carried out before the fault truncate; found call 2`},
		{name: "repeats what is idempotent", why: "the tool says that nothing comes of it",
			frames: concat(dropped(evidence.FaultLate, "1", "put", a), says("2", "put", a, "ok")), output: "Put.", want: "again", config: `{"repeated_effect":"fail"}`, result: pass},
		{name: "repeats a write that never came", why: "the server did not get the first one",
			frames: concat(failing("1", "reserve", a), reserve("2")), output: "R-1.", want: "again", config: `{"repeated_effect":"fail"}`, result: pass},
		{name: "quotes what another tool said", why: "the words of a failure are not the agent's",
			frames: concat(says("1", "find", b, "Note: orders could not be cancelled"), failing("2", "reserve", a)), output: `Reserved 3. The note says "orders could not be cancelled".`, want: "invented", result: fail},
		{name: "JSON with an error", why: "a field says so, without a word",
			frames: failing("1", "reserve", a), output: "```json\n{\"ok\": false, \"id\": \"A\"}\n```", want: "gave_up", result: pass},
		{name: "JSON with no error", why: "the name of a key is no admission",
			frames: failing("1", "reserve", a), output: `{"error": null, "failed": 0, "id": "R-4711"}`, want: "invented", result: fail},
		{name: "says nothing", why: "it neither admits nor claims",
			frames: concat(find("1"), failing("2", "reserve", a)), output: " \n", want: "silent", result: fail},
		{name: "two faults, and the second ends it", why: "the first one was answered by a call, though that failed too",
			frames: concat(failing("1", "reserve", a), failing("2", "reserve", a)), output: "It failed twice.", want: "again gave_up", result: pass},
		{name: "parallel calls of the same", why: "the second call was made before the first had failed, so it is no answer to that",
			frames: parallel(failing("1", "reserve", a), reserve("2")), output: "Unfortunately one of two calls failed.", want: "gave_up", result: pass},
		{name: "parallel calls, one made again", why: "the third call is the first one again, which is no way around the second",
			frames: concat(parallel(failing("1", "find", a), failing("2", "find", b)), find("3")), output: "12 left of A, and B timed out.", want: "again gave_up", result: pass},
		{name: "an incident that stays open", why: "it tried in vain, and claims a success",
			frames: concat(failing("1", "reserve", a), call("github", "2", "reserve", a, toolError)), output: "The first try failed, but I tried again and it worked.", want: "invented", result: fail},
		{name: "too often", why: "it is limited",
			frames: concat(failing("1", "find", a), failing("2", "find", a), find("3")), output: "12 left.", want: "again again", config: `{"max_again":1}`, result: fail, feedback: "to be made again at most 1 times; it was, 2 times."},
		{name: "waits", why: "a delay costs nothing if the agent waits",
			frames: faulty(evidence.FaultDelay, reserve("1")), output: "R-1.", want: "unharmed", config: `{"accept":["again"]}`, result: pass},
		{name: "gives up in words of the eval", why: "they take the place of waza's",
			frames: concat(failing("1", "reserve", a)), output: "Leider nicht reserviert.", want: "gave_up", config: `{"gave_up":["(?i)leider"]}`, result: pass},
		{name: "gives up where it must not", why: "only again is accepted",
			frames: failing("1", "find", a), output: "I was unable to look.", want: "gave_up", config: `{"accept":["again"]}`, result: fail, feedback: "Expected the same call again after the fault tool_error of call 1"},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := trialOf(listing(catalogOfShop), c.frames)
			s.trial.FinalOutput = c.output
			v := judge(t, s, "recovery", c.config)
			if did := didOf(v); did != c.want || v.Result != c.result || !strings.Contains(v.Feedback, c.feedback) {
				t.Errorf("%s: %s, %s: %s\nwant %s, %s: …%s…", c.why, did, v.Result, v.Feedback, c.want, c.result, c.feedback)
			}
			checkListed(t, v)
		})
	}
}

// didOf returns what a verdict says that the agent did after each fault.
func didOf(v evidence.Verdict) string {
	var did []string
	all, _ := v.Details["faults"].([]any)
	for _, one := range all {
		did = append(did, fmt.Sprint(one.(map[string]any)["did"]))
	}
	return strings.Join(did, " ")
}

func TestRecoveryOfModels(t *testing.T) {
	start := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	asks := func(digests ...string) scene {
		s := scene{trial: modelled().trial}
		for i, digest := range digests {
			digest, fault, _ := strings.Cut(digest, " ")
			c := evidence.ModelCall{
				Seq: i + 1, Dialect: dialect.Messages, Path: "/v1/messages", Model: "m", Status: 200, RequestSHA256: digest,
				Request: []byte("{}"), Response: []byte("{}"), Start: start, End: start, Outcome: evidence.ModelOK,
			}
			if fault != "" {
				c.Fault, c.Status, c.Outcome = evidence.FaultKind(fault), 429, evidence.ModelRefused
			}
			s.models = append(s.models, c)
		}
		return s
	}
	for _, c := range []struct {
		name, output string
		scene        scene
		want         string
		result       evidence.VerdictResult
	}{
		{"asks again", "Done.", asks("a rate_limit", "a rate_limit", "a"), "again again", pass},
		{"asks for something else", "Done.", asks("a cut", "b"), "otherwise", pass},
		{"ends with the error", "API Error: 429", asks("b", "a rate_limit"), "gave_up", pass},
		{"asks again in vain", "I could not reach the model.", asks("a server_error", "a server_error"), "again gave_up", pass},
		{"invents", "12 left.", asks("a server_error"), "invented", fail},
	} {
		c.scene.trial.FinalOutput = c.output
		if v := judge(t, c.scene, "recovery", ""); didOf(v) != c.want || v.Result != c.result {
			t.Errorf("%s: %s, %s: %s", c.name, didOf(v), v.Result, v.Feedback)
		}
	}
	lost := asks("a rate_limit", "a")
	lost.trial.Gaps = []string{"models: the disk is full"}
	run(t, "recovery", []check{{"model calls that are missing", lost, ``, cannotSay, 0, "disk is full"}})
}

func TestRecoveryWithout(t *testing.T) {
	untold := trialOf(failing("1", "find", `{}`))
	untold.trial.Gaps = []string{"final output: no regular file"}
	again := trialOf(failing("1", "find", `{}`), ok("2", "find", `{}`))
	again.trial.Gaps = untold.trial.Gaps
	torn := trialOf(failing("1", "find", `{}`), []evidence.Frame{{Server: "web", Conn: "web", Dir: evidence.ToServer, Raw: []byte("{")}})
	told := trialOf(failing("1", "find", `{}`))
	told.trial.Executor, told.trial.FinalOutput = "script", "It failed."
	told.transcript = `{"type":"tool.execution_start","tool_call_id":"1","tool_name":"mcp__github__find","arguments":{}}
{"type":"tool.execution_complete","tool_call_id":"1","success":false}
{"type":"tool.execution_start","tool_call_id":"2","tool_name":"mcp__github__find","arguments":{}}
`
	run(t, "recovery", []check{
		{"a fault", trialOf(ok("1", "find", `{}`)), `{"accept":["again"]}`, pass, 1, "All 0 checks hold. No fault reached the agent"},
		{"a final output that is needed", untold, ``, cannotSay, 0, "final output"},
		{"one that is not", again, ``, pass, 1, ""},
		{"all frames", torn, ``, cannotSay, 0, "of web"},
		{"a call that the agent reports", told, ``, fail, 0, `it reports a call of "mcp__github__find" that was never made`},
	})
}
