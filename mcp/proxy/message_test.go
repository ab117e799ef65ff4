package proxy

import (
	"bytes"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/waza-isolate/waza/internal/jsontext"
	"github.com/waza-isolate/waza/mcp/jsonrpc"
)

func TestParse(t *testing.T) {
	tests := []struct {
		name string
		raw  string
		want message
		err  error
	}{
		{"request", `{"jsonrpc":"2.0","id":1,"method":"m"}`, message{kind: request, method: "m", id: jsonrpc.ID{Key: "n1e0"}}, nil},
		{"string id", `{"jsonrpc":"2.0","id":"1","method":"m"}`, message{kind: request, method: "m", id: jsonrpc.ID{Key: "s1"}}, nil},
		{"escaped id", `{"jsonrpc":"2.0","id":"\u0061","method":"m"}`, message{kind: request, method: "m", id: jsonrpc.ID{Key: "sa"}}, nil},
		{"fraction that is an integer", `{"jsonrpc":"2.0","id":10.0e0,"method":"m"}`, message{kind: request, method: "m", id: jsonrpc.ID{Key: "n1e1"}}, nil},
		{"escaped key", `{"jsonrpc":"2.0","\u0069d":1,"method":"m"}`, message{kind: request, method: "m", id: jsonrpc.ID{Key: "n1e0"}}, nil},
		{"notification", `{"jsonrpc":"2.0","method":"m"}`, message{kind: notification, method: "m"}, nil},
		{"result", `{"jsonrpc":"2.0","id":1,"result":null}`, message{kind: response, id: jsonrpc.ID{Key: "n1e0"}}, nil},
		{"error", `{"jsonrpc":"2.0","id":1,"error":{"code":-5}}`, message{kind: response, id: jsonrpc.ID{Key: "n1e0"}, isError: true, errorCode: -5}, nil},
		{"error for no request", `{"jsonrpc":"2.0","id":null,"error":{}}`, message{kind: response, isError: true}, nil},
		{"id twice", `{"jsonrpc":"2.0","id":1,"id":2,"method":"m"}`, message{kind: request, method: "m", id: jsonrpc.ID{Key: "n2e0"}, ambiguous: true}, nil},
		{"other case", `{"jsonrpc":"2.0","id":1,"ID":2,"method":"m"}`, message{kind: request, method: "m", id: jsonrpc.ID{Key: "n1e0"}, ambiguous: true}, nil},
		{"long s", `{"jsonrpc":"2.0","id":1,"method":"m","paramſ":{}}`, message{kind: request, method: "m", id: jsonrpc.ID{Key: "n1e0"}, ambiguous: true}, nil},
		{"a key that ends in C", `{"jsonrpc":"2.0","id":1,"method":"m","method\u0000":"n"}`, message{kind: request, method: "m", id: jsonrpc.ID{Key: "n1e0"}, ambiguous: true}, nil},
		{"name and token", `{"jsonrpc":"2.0","id":1,"method":"m","params":{"name":"t","uri":"u","_meta":{"progressToken":7}}}`,
			message{kind: request, method: "m", id: jsonrpc.ID{Key: "n1e0"}, name: "t", token: jsonrpc.ID{Key: "n7e0"}}, nil},
		{"progress", `{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":"7","_meta":{"progressToken":1}}}`,
			message{kind: notification, method: "notifications/progress", token: jsonrpc.ID{Key: "s7"}}, nil},
		{"brackets in strings", `{"jsonrpc":"2.0","params":{"x":"}]\"{","y":[[1],{}]},"method":"m"}`, message{kind: notification, method: "m"}, nil},
		{"nothing", ``, message{}, jsonrpc.ErrNotJSON},
		{"two values", `{} {}`, message{}, jsonrpc.ErrNotJSON},
		{"no version", `{"id":1,"method":"m"}`, message{}, jsonrpc.ErrNotMessage},
		{"version 1", `{"jsonrpc":2.0,"id":1,"method":"m"}`, message{}, jsonrpc.ErrNotMessage},
		{"scalar", `17`, message{}, jsonrpc.ErrNotMessage},
		{"no id", `{"jsonrpc":"2.0","result":1}`, message{}, jsonrpc.ErrNotMessage},
		{"null result id", `{"jsonrpc":"2.0","id":null,"result":1}`, message{}, jsonrpc.ErrNotMessage},
		{"object id", `{"jsonrpc":"2.0","id":{},"method":"m"}`, message{}, jsonrpc.ErrNotMessage},
		{"both", `{"jsonrpc":"2.0","id":1,"method":"m","result":1}`, message{}, jsonrpc.ErrNotMessage},
		{"result and error", `{"jsonrpc":"2.0","id":1,"error":{},"result":1}`, message{}, jsonrpc.ErrNotMessage},
		{"method is no text", `{"jsonrpc":"2.0","id":1,"method":1}`, message{}, jsonrpc.ErrNotMessage},
		{"empty batch", `[]`, message{}, jsonrpc.ErrNotMessage},
		{"batch with a stranger", `[{"jsonrpc":"2.0","method":"m"},1]`, message{}, jsonrpc.ErrNotMessage},
		{"large batch", "[" + strings.Repeat(`{"jsonrpc":"2.0","method":"m"},`, jsonrpc.MaxBatch) + `{"jsonrpc":"2.0","method":"m"}]`, message{}, jsonrpc.ErrNotMessage},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			env, err := parse([]byte(tt.raw))
			if !errors.Is(err, tt.err) {
				t.Fatalf("error %v, want %v", err, tt.err)
			}
			if err != nil {
				return
			}
			got, want := env.messages[0], tt.want
			if got.kind != want.kind || got.method != want.method || got.id.Key != want.id.Key || got.name != want.name ||
				got.token.Key != want.token.Key || got.isError != want.isError || got.errorCode != want.errorCode ||
				got.ambiguous != want.ambiguous {
				t.Errorf("got %+v\nwant %+v", got, want)
			}
		})
	}
}

// FuzzParse holds the walker against encoding/json: the same members with the
// same bytes, for everything that either takes for JSON.
func FuzzParse(f *testing.F) {
	for _, seed := range []string{
		`{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25"}}`, `[{"jsonrpc":"2.0","method":"ping"}]`, `{"a":[1,{"b":"\"}"}],"a":-1.5e3 , "":null}`, `{"id":1,"ID":2}`, ` [ ] `, `{`, `"\ud800"`,
		`{"jsonrpc":"2.0","id":1.0,"error":{"code":-32601}}`, `{"jsonrpc":"2.0","method":"x","params":{"_meta":{"progressToken":1}}}`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		env, err := parse(raw)
		if (err == nil) != (len(env.messages) > 0 && env.messages[0].kind != 0) {
			t.Fatalf("%v with %+v", err, env)
		}
		if !json.Valid(raw) {
			return
		}
		var object map[string]json.RawMessage
		if json.Unmarshal(raw, &object) == nil && object != nil {
			got := map[string]json.RawMessage{}
			for key, value := range jsontext.Members(raw) {
				got[key] = value
			}
			if len(got) != len(object) {
				t.Fatalf("members of %q: %q", raw, got)
			}
			for key, value := range object {
				if !bytes.Equal(got[key], value) {
					t.Fatalf("%q of %q: %q, want %q", key, raw, got[key], value)
				}
			}
		}
		var array []json.RawMessage
		if json.Unmarshal(raw, &array) == nil && array != nil {
			var got []json.RawMessage
			for element := range jsontext.Elements(raw) {
				got = append(got, element)
			}
			if !slices.EqualFunc(got, array, func(a, b json.RawMessage) bool { return bytes.Equal(a, b) }) {
				t.Fatalf("elements of %q: %q", raw, got)
			}
		}
	})
}

func TestParseAccept(t *testing.T) {
	tests := map[string]accepts{
		"":                                    {true, true},
		"*/*":                                 {true, true},
		"application/json":                    {json: true},
		"application/json, text/event-stream": {true, true},
		"text/event-stream;q=0.5":             {stream: true},
		"application/*":                       {json: true},
		"image/png":                           {},
		";;;":                                 {},
	}
	for header, want := range tests {
		if got := parseAccept([]string{header}); got != want {
			t.Errorf("%q: %+v, want %+v", header, got, want)
		}
	}
}

func TestLongIDsAndMethodsAreNone(t *testing.T) {
	long := strings.Repeat("1", jsonrpc.MaxName+1)
	for _, raw := range []string{
		`{"jsonrpc":"2.0","id":` + long + `,"method":"x"}`, `{"jsonrpc":"2.0","id":"` + long + `","method":"x"}`,
		`{"jsonrpc":"2.0","id":"` + long + `","result":{}}`, `{"jsonrpc":"2.0","id":1,"method":"` + long + `"}`,
	} {
		if _, err := parse([]byte(raw)); !errors.Is(err, jsonrpc.ErrNotMessage) {
			t.Errorf("%.60s: %v", raw, err)
		}
	}
}
