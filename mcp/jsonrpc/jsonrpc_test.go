package jsonrpc_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/waza-isolate/waza/mcp/jsonrpc"
)

// Ids are equal by type and by value, to the last digit.
func TestID(t *testing.T) {
	for _, same := range [][]string{
		{`1`, `1.0`, `10e-1`, `1.000E0`},
		{`"1"`, `"\u0031"`},
		{`9007199254740993`, `9007199254740993.0`},
		{`9007199254740992`},
		{`"9007199254740993"`},
		{`0`, `-0`, `0e9`},
		{`-5`},
		{`1.5`},
		{`1e400`, `10E399`},
		{`""`},
		{`"n1e0"`},
	} {
		first, ok := jsonrpc.ParseID([]byte(same[0]))
		if !ok || first.Key == "" || string(first.Raw) != same[0] {
			t.Fatalf("%s is %+v", same[0], first)
		}
		for _, raw := range same {
			if id, _ := jsonrpc.ParseID([]byte(raw)); id.Key != first.Key {
				t.Errorf("%s is another id than %s", raw, same[0])
			}
		}
		if seen[first.Key] {
			t.Errorf("%s is the id of others too", same[0])
		}
		seen[first.Key] = true
	}
	for _, raw := range []string{``, `null`, `true`, `{}`, `[1]`, strings.Repeat("1", jsonrpc.MaxName+1)} {
		if id, ok := jsonrpc.ParseID([]byte(raw)); ok || id.Key != "" {
			t.Errorf("%.20s is an id", raw)
		}
	}
}

func TestRead(t *testing.T) {
	for raw, want := range map[string]string{
		`{"jsonrpc":"2.0","id":1,"method":"m","params":{"a":1}}`: `m request {"a":1}`,
		`{"jsonrpc":"2.0","method":"m"}`:                         `m`,
		`{"jsonrpc":"2.0","id":"x","result":null}`:               `response null`,
		`{"jsonrpc":"2.0","id":null,"error":{}}`:                 `response {}`,
		`{"jsonrpc":"2.0","\u0069d":1,"method":"m"}`:             `m request`,
		`{"jsonrpc":"2.0","id":1,"method":"m","method":"n"}`:     `n request repeated`,
		`{"jsonrpc":"2.0","id":1,"method":"m","Method":"n"}`:     `m request key "Method", which some parsers read as "method"`,
		`{"jsonrpc":"2.0","method":"m","paramſ":{"a":1}}`:        `m key "paramſ", which some parsers read as "params"`,
		`{"jsonrpc":"2.0","method":"m","id\u0000":1}`:            `m key "id\x00", which some parsers read as "id"`,
		"{\"jsonrpc\":\"2.0\",\"method\":\"m\",\"i\xffd\":1}":    `m key "i�d", which is not UTF-8`,
		// A lenient server takes what the specification does not allow.
		`{"id":1,"method":"m"}`:                               `m request invalid`,
		`{"jsonrpc":"1.0","id":1,"method":"m"}`:               `m request invalid`,
		`{"jsonrpc":"2.0","id":null,"method":"m"}`:            `m invalid`,
		`{"jsonrpc":"2.0","id":{},"method":"m"}`:              `m invalid`,
		`{"jsonrpc":"2.0","id":1,"method":"m","result":1}`:    `m request 1 invalid`,
		`{"jsonrpc":"2.0","id":1,"result":1,"error":2}`:       `response 1 2 invalid`,
		`{"jsonrpc":"2.0","result":1}`:                        `response 1 invalid`,
		`{"jsonrpc":"2.0","id":null,"result":1}`:              `response 1 invalid`,
		`{"jsonrpc":"2.0","id":1,"method":1}`:                 `no message`,
		`{"jsonrpc":"2.0","id":1}`:                            `no message`,
		`{"jsonrpc":"2.0","METHOD":"m"}`:                      `no message key "METHOD", which some parsers read as "method"`,
		`17`:                                                  `no message`,
		`null`:                                                `no message`,
		`{"jsonrpc":"2.0","method":"` + longName + `"}`:       longName + ` invalid`,
		`{"jsonrpc":"2.0","id":"` + longName + `","error":1}`: `response 1 invalid`,
	} {
		m, err := jsonrpc.Read([]byte(raw))
		if got := describe(m, err); got != want {
			t.Errorf("%.80s is\n%.80s, want\n%.80s", raw, got, want)
		}
	}
}

var (
	longName = strings.Repeat("x", jsonrpc.MaxName+1)
	seen     = map[string]bool{}
)

func describe(m jsonrpc.Message, err error) string {
	var said []string
	switch {
	case err != nil:
		said = append(said, "no message")
	case m.Method != "":
		said = append(said, m.Method)
	default:
		said = append(said, "response")
	}
	if m.IsRequest() {
		said = append(said, "request")
	}
	for _, part := range []json.RawMessage{m.Params, m.Result, m.Error} {
		if part != nil {
			said = append(said, string(part))
		}
	}
	if m.Repeated {
		said = append(said, "repeated")
	}
	if m.Misread != nil {
		said = append(said, m.Misread.Error())
	}
	if err == nil && m.Valid() != nil {
		said = append(said, "invalid")
	}
	return strings.Join(said, " ")
}

// An answer belongs to its request by its id, whatever else is wrong with it. Everything else
// that a server sends is as the specification says, or it is no message.
func TestHear(t *testing.T) {
	for raw, want := range map[string]string{
		`{"jsonrpc":"2.0","id":1,"result":{}}`:                                    `1 {}`,
		`{"jsonrpc":"2.0","id":1,"error":{"code":-1,"message":"m"}}`:              `1 {"code":-1,"message":"m"}`,
		`{"jsonrpc":"2.0","id":1,"result":{},"error":null}`:                       `1 {}: its error is null beside a result`,
		`{"jsonrpc":"2.0","id":1,"result":null,"error":{"code":1,"message":"m"}}`: `1 {"code":1,"message":"m"}: its result is null beside an error`,
		`{"jsonrpc":"2.0","id":1,"result":{},"error":{"code":1,"message":"m"}}`:   `1 {"code":1,"message":"m"}: both a result and an error`,
		`{"jsonrpc":"2.0","id":1,"result":null}`:                                  `1: it has neither a result nor an error`,
		`{"jsonrpc":"2.0","id":1,"result":null,"error":null}`:                     `1: it has neither a result nor an error`,
		`{"jsonrpc":"2.0","id":1}`:                                                `1: it has neither a result nor an error`,
		`{"jsonrpc":"2.0","id":1,"method":null,"result":{}}`:                      `1 {}: an answer has no method`,
		`{"jsonrpc":"2.0","id":1,"method":7,"result":{}}`:                         `1 {}: an answer has no method`,
		`{"jsonrpc":"2.0","id":1,"method":"tools/call","result":{}}`:              `1: an answer has no method`,
		`{"jsonrpc":"2.0","id":1,"method":"ping","result":null}`:                  `no message`,
		`{"jsonrpc":"2.0","id":1,"error":"no"}`:                                   `1 "no": its error is not an object`,
		`{"jsonrpc":"2.0","id":1,"error":{"code":"E42","message":"m"}}`:           `1 {"code":"E42","message":"m"}: the code of its error is not an integer`,
		`{"jsonrpc":"2.0","id":1,"error":{"code":1.5,"message":"m"}}`:             `1 {"code":1.5,"message":"m"}: the code of its error is not an integer`,
		`{"jsonrpc":"2.0","id":1,"error":{"code":1}}`:                             `1 {"code":1}: the message of its error is not a text`,
		`{"id":1,"result":{}}`:                                                    `1 {}: no "jsonrpc": "2.0"`,
		`{"jsonrpc":"1.0","id":1,"result":{}}`:                                    `1 {}: no "jsonrpc": "2.0"`,
		`{"jsonrpc":2.0,"id":1,"result":{}}`:                                      `1 {}: no "jsonrpc": "2.0"`,
		`{"jsonrpc":"2.0","id":1,"result":{},"took":3}`:                           `1 {}: its key "took" is none of JSON-RPC`,
		`{"jsonrpc":"2.0","id":1,"result":{},"result":{"isError":true}}`:          `1: a key of its envelope comes twice`,
		`{"jsonrpc":"2.0","id":1,"Result":{}}`:                                    `1: key "Result", which some parsers read as "result"`,
		`{"jsonrpc":"2.0","id":1,"result":{"mean":NaN}}`:                          `1: not JSON`,
		`{"jsonrpc":"2.0","result":{"mean":-Infinity},"id":"a"}`:                  `"a": not JSON`,
		`{"jsonrpc":"2.0","id":1,"result":{"content":[{"text":"cut`:               `no message`,
		`{"jsonrpc":"2.0","id":1,"result":{},}`:                                   `1: not JSON`,
		`{"jsonrpc":"2.0","id":1,"result":{}} {"jsonrpc":"2.0","method":"m"}`:     `1: not JSON`,
		"\xef\xbb\xbf" + `{"jsonrpc":"2.0","id":1,"result":{}}`:                   `1: not JSON`,
		`[{"jsonrpc":"2.0","id":1,"result":{}},{"id":2,"result":{}},3]`:           `1 {} | 2 {}: no "jsonrpc": "2.0" | : it is neither a request, a notification nor a response`,

		`{"id":1,"level":"info","msg":"a line of a log"}`: `no message`,
		`{"level":"error","error":{"code":1}}`:            `no message`,
		`{"jsonrpc":"2.0","id":1,"method":"m",}`:          `no message`,
		`{"jsonrpc":"2.0","id":1x,"result":{}}`:           `no message`,
		`{"jsonrpc":"2.0","result":{}}`:                   `no message`,
		`{"jsonrpc":"2.0","id":`:                          `no message`,
		`{"jsonrpc"`:                                      `no message`,
		`[3,4]`:                                           `no message`,
		`<html>`:                                          `no message`,
		`[DONE]`:                                          `no message`,
	} {
		messages, _, err := jsonrpc.Hear([]byte(raw))
		var said []string
		for _, m := range messages {
			one := string(m.ID.Raw)
			for _, part := range []json.RawMessage{m.Result, m.Error} {
				if part != nil {
					one += " " + string(part)
				}
			}
			if m.Odd != nil {
				why, _ := strings.CutPrefix(m.Odd.Error(), jsonrpc.ErrNotMessage.Error()+": ")
				why, _, _ = strings.Cut(why, "JSON: ")
				one += ": " + why + map[bool]string{true: "JSON"}[errors.Is(m.Odd, jsonrpc.ErrNotJSON)]
			}
			said = append(said, one)
		}
		if err != nil {
			said = []string{"no message"}
		}
		if got := strings.Join(said, " | "); got != want {
			t.Errorf("%s is\n%s, want\n%s", raw, got, want)
		}
	}
}

func TestTwin(t *testing.T) {
	for raw, want := range map[string]string{`1`: `"1"`, `"1"`: `1`, `"1.0"`: `1`, `"-7"`: `-7`, `"a"`: ``, `"\"1\""`: ``, `"01"`: ``, `""`: ``} {
		id, _ := jsonrpc.ParseID([]byte(raw))
		twin, _ := jsonrpc.ParseID([]byte(want))
		if id.Twin() != twin.Key {
			t.Errorf("the twin of %s is %q, want %s", raw, id.Twin(), want)
		}
	}
}

func FuzzHear(f *testing.F) {
	f.Add([]byte(`{"jsonrpc":"2.0","id":1,"result":{"mean":NaN},"error":null}`))
	f.Add([]byte(`[{"id":"1","method":null,"error":{"code":"E"}},3,{"jsonrpc":`))
	f.Fuzz(func(t *testing.T, raw []byte) {
		messages, _, err := jsonrpc.Hear(raw)
		if err != nil {
			return
		}
		strict, _, invalid := jsonrpc.Parse(raw)
		if invalid == nil && len(strict) != len(messages) {
			t.Fatalf("%q is %d messages, and %d for Parse", raw, len(messages), len(strict))
		}
		for i, m := range messages {
			if m.ID.Key != "" && !json.Valid(m.ID.Raw) || m.Result != nil && !json.Valid(m.Result) || m.Error != nil && !json.Valid(m.Error) {
				t.Fatalf("%q has %+v", raw, m)
			}
			if invalid == nil && strict[i].ID.Key != m.ID.Key {
				t.Fatalf("%q has id %q, and %q for Parse", raw, m.ID.Key, strict[i].ID.Key)
			}
		}
	})
}

func TestSplit(t *testing.T) {
	element := `{"jsonrpc":"2.0","method":"m"}`
	for raw, want := range map[string]struct {
		messages int
		batch    bool
		err      error
	}{
		" " + element + "\r\n":               {1, false, nil},
		"[" + element + " , 1]":              {2, true, nil},
		"[]":                                 {0, true, jsonrpc.ErrNotMessage},
		"":                                   {0, false, jsonrpc.ErrNotJSON},
		"{} {}":                              {0, false, jsonrpc.ErrNotJSON},
		"[" + element:                        {0, false, jsonrpc.ErrNotJSON},
		batchOf(element, jsonrpc.MaxBatch):   {jsonrpc.MaxBatch, true, nil},
		batchOf(element, jsonrpc.MaxBatch+1): {0, true, jsonrpc.ErrNotMessage},
		batchOf("[1,2]", 3):                  {3, true, nil},
		`"` + strings.Repeat("[", 100) + `"`: {1, false, nil},
	} {
		messages, batch, err := jsonrpc.Split([]byte(raw))
		if len(messages) != want.messages || batch != want.batch || !errors.Is(err, want.err) {
			t.Errorf("%.60s is %d messages, %v, %v", raw, len(messages), batch, err)
		}
	}
}

func batchOf(element string, n int) string {
	return "[" + strings.TrimSuffix(strings.Repeat(element+",", n), ",") + "]"
}

// FuzzRead compares the members and their bytes with those of encoding/json.
func FuzzRead(f *testing.F) {
	for _, seed := range []string{
		`{"jsonrpc":"2.0","id":1.0,"error":{"code":-32601}}`, `[{"jsonrpc":"2.0","method":"x","params":{"_meta":{}}}]`,
		`{"a":[1,{"b":"\"}"}],"a":-1.5e3 , "":null}`, `{"id":1,"ID":2}`, ` [ ] `, `{`, `"\ud800"`, "{\"i\xffd\":1}",
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		messages, batch, err := jsonrpc.Split(raw)
		if (err == nil) != (len(messages) > 0) {
			t.Fatalf("%d messages and %v", len(messages), err)
		}
		if !json.Valid(raw) != errors.Is(err, jsonrpc.ErrNotJSON) {
			t.Fatalf("%q: %v", raw, err)
		}
		var all []json.RawMessage
		if err == nil && batch && (json.Unmarshal(raw, &all) != nil || len(all) != len(messages)) {
			t.Fatalf("%d messages, want %d", len(messages), len(all))
		}
		for i, one := range messages {
			if batch && !bytes.Equal(one, all[i]) {
				t.Fatalf("%q, want %q", one, all[i])
			}
			m, err := jsonrpc.Read(one)
			var fields map[string]json.RawMessage
			if json.Unmarshal(one, &fields) != nil && err == nil {
				t.Fatalf("%q is a message", one)
			}
			for key, part := range map[string]json.RawMessage{"params": m.Params, "result": m.Result, "error": m.Error} {
				if !bytes.Equal(part, fields[key]) {
					t.Fatalf("%s of %q: %q, want %q", key, one, part, fields[key])
				}
			}
			if id, ok := jsonrpc.ParseID(fields["id"]); ok != (m.ID.Key != "") || id.Key != m.ID.Key {
				t.Fatalf("id of %q: %q, want %q", one, m.ID.Key, id.Key)
			}
		}
	})
}

// BenchmarkRead is what a call costs twice on its way: its request, and a response of 1 KiB.
func BenchmarkRead(b *testing.B) {
	for name, raw := range map[string]string{
		"request":  `{"jsonrpc":"2.0","id":17,"method":"tools/call","params":{"name":"find_item","arguments":{"sku":"BRG-6204","n":3}}}`,
		"response": `{"jsonrpc":"2.0","id":17,"result":{"content":[{"type":"text","text":"` + strings.Repeat("x", 1<<10) + `"}]}}`,
	} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if m, err := jsonrpc.ReadOne([]byte(raw)); err != nil || m.Valid() != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func TestWrite(t *testing.T) {
	id, _ := jsonrpc.ParseID([]byte(`9007199254740993.0`))
	request, err := jsonrpc.Request(1, "tools/call", map[string]any{"name": "<a>"})
	if want := `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"<a>"}}`; err != nil || string(request) != want {
		t.Errorf("%s, %v, want %s", request, err, want)
	}
	for got, want := range map[string]string{
		string(jsonrpc.Answer(id, struct{}{})):                        `{"jsonrpc":"2.0","id":9007199254740993.0,"result":{}}`,
		string(jsonrpc.Answer(id, json.RawMessage(`{`))):              `{"jsonrpc":"2.0","id":9007199254740993.0,"error":{"code":-32603,`,
		string(jsonrpc.Refuse(id, jsonrpc.MethodNotFound, "no <b>.")): `{"jsonrpc":"2.0","id":9007199254740993.0,"error":{"code":-32601,"message":"no <b>."}}`,
	} {
		if _, err := jsonrpc.ReadOne([]byte(got)); err != nil || !strings.HasPrefix(got, want) {
			t.Errorf("%s, %v, want %s", got, err, want)
		}
	}
}
