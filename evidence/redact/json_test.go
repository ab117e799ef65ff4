package redact

import (
	"encoding/json"
	"reflect"
	"testing"
)

func TestJSON(t *testing.T) {
	tests := []struct {
		name, secret, in, out string
		found                 Found
	}{
		{"a value", "s3cret", `{"a": "x s3cret"}`, `{"a": "x [REDACTED]"}`, Found{Spans: 1}},
		{"an escaped value", "a\nb\"c", `{"a":"a\nb\"c"}`, `{"a":"[REDACTED]"}`, Found{Spans: 1}},
		{"a value escaped needlessly", "hunter22", `{"a":"\u0068unter22"}`, `{"a":"[REDACTED]"}`, Found{Spans: 1}},
		{"a literal", "true", `{"isError":true}`, `{"isError":true}`, Found{}},
		{"a number", "8080", `{"port":18080,"id":8080}`, `{"port":18080,"id":8080}`, Found{}},
		{"a method", "tools", `{"method":"tools/call","params":{"name":"x"}}`, `{"method":"tools/call","params":{"name":"x"}}`, Found{}},
		{"a key", "result", `{"result":{"content":[]}}`, `{"result":{"content":[]}}`, Found{}},
		{"a key that is a secret", "s3cret", `{"a":{"s3cret":1}}`, `{"a":{"[REDACTED]":1}}`, Found{Spans: 1}},
		{"a tool's name", "read_text_file", `{"method":"tools/call","params":{"name":"read_text_file"}}`, `{"method":"tools/call","params":{"name":"[REDACTED]"}}`, Found{Spans: 1, Envelope: true}},
		{"a name elsewhere", "read_text_file", `{"params":{"arguments":{"name":"read_text_file"}}}`, `{"params":{"arguments":{"name":"[REDACTED]"}}}`, Found{Spans: 1}},
		{"an id in a batch", "s3cret", `[{"id":"s3cret"}]`, `[{"id":"[REDACTED]"}]`, Found{Spans: 1, Envelope: true}},
		{"no JSON", "s3cret", `{"a": s3cret`, `{"a": [REDACTED]`, Found{Spans: 1, Envelope: true}},
		{"bytes that stay", "s3cret", "{ \"n\" : 1.0e2 ,\"é\\u0041\":\"\u00a0\", \"x\":\"s3cret\"}", "{ \"n\" : 1.0e2 ,\"é\\u0041\":\"\u00a0\", \"x\":\"[REDACTED]\"}", Found{Spans: 1}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			got, found := set(test.secret).JSON([]byte(test.in))
			if string(got) != test.out || !reflect.DeepEqual(found, test.found) {
				t.Errorf("got %s, %+v", got, found)
			}
		})
	}
}

// FuzzJSON checks that a valid document stays valid and that nothing is changed
// where no secret is.
func FuzzJSON(f *testing.F) {
	f.Add([]byte(`{"a":["s3cret",{"s3cret":"\u0073"}],"b":[[]],"c":"]}"}`))
	f.Add([]byte(`"s3cret"`))
	f.Add([]byte(`[[{}],{"x":{"y":[1,"s3cret"]}}]`))
	f.Fuzz(func(t *testing.T, doc []byte) {
		got, found := set("s3cret").JSON(doc)
		if json.Valid(doc) && !json.Valid(got) {
			t.Fatalf("%s became %s", doc, got)
		}
		if found.Spans == 0 && string(got) != string(doc) {
			t.Fatalf("%s became %s", doc, got)
		}
	})
}
