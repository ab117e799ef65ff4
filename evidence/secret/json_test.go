package secret

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
		{"a value", "s3cret", `{"a": "x s3cret"}`, `{"a": "x ******"}`, Found{Spans: 1}},
		{"an escaped value", "a\nb\"c", `{"a":"a\nb\"c"}`, `{"a":"*******"}`, Found{Spans: 1}},
		{"a value escaped needlessly", "hunter22", `{"a":"\u0068unter22"}`, `{"a":"*************"}`, Found{Spans: 1}},
		{"a literal", "true", `{"isError":true}`, `{"isError":true}`, Found{}},
		{"a number", "80801234", `{"port":-0.80801234e5,"a":[80801234]}`, `{"port":-0.11111111e5,"a":[11111111]}`, Found{Spans: 2}},
		{"a part of a number", "8080", `{"port":18080,"a":8080}`, `{"port":18080,"a":1111}`, Found{Spans: 1}},
		{"a number that is an id", "8080", `{"id":8080}`, `{"id":1111}`, Found{Spans: 1, Envelope: true}},
		{"JSON that is one", `{"k": "s3cret"}`, `{"a":{"k":"s3cret"}}`, `{"a":{"k":"******"}}`, Found{Spans: 1}},
		{"an escape's end", "nhunter22", `{"a":"\nhunter22"}`, `{"a":"\nhunter22"}`, Found{}},
		{"a method", "tools", `{"method":"tools/call","params":{"name":"x"}}`, `{"method":"tools/call","params":{"name":"x"}}`, Found{}},
		{"a key", "result", `{"result":{"content":[]}}`, `{"result":{"content":[]}}`, Found{}},
		{"a key that is a secret", "s3cret", `{"a":{"s3cret":1}}`, `{"a":{"******":1}}`, Found{Spans: 1}},
		{"a tool's name", "read_text_file", `{"method":"tools/call","params":{"name":"read_text_file"}}`, `{"method":"tools/call","params":{"name":"**************"}}`, Found{Spans: 1, Envelope: true}},
		{"a name elsewhere", "read_text_file", `{"params":{"arguments":{"name":"read_text_file"}}}`, `{"params":{"arguments":{"name":"**************"}}}`, Found{Spans: 1}},
		{"an id in a batch", "s3cret", `[{"id":"s3cret"}]`, `[{"id":"******"}]`, Found{Spans: 1, Envelope: true}},
		{"no JSON", "s3cret", `{"a": s3cret`, `{"a": ******`, Found{Spans: 1, Envelope: true}},
		{"bytes that stay", "s3cret", "{ \"n\" : 1.0e2 ,\"é\\u0041\":\"\u00a0\", \"x\":\"s3cret\"}", "{ \"n\" : 1.0e2 ,\"é\\u0041\":\"\u00a0\", \"x\":\"******\"}", Found{Spans: 1}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			got, found := set(test.secret).JSON([]byte(test.in))
			if len(found.Where) != found.Spans {
				t.Errorf("%d spans are at %v", found.Spans, found.Where)
			}
			found.Where = nil
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
		if len(got) != len(doc) {
			t.Fatalf("%d bytes became %d", len(doc), len(got))
		}
		if found.Spans == 0 && string(got) != string(doc) {
			t.Fatalf("%s became %s", doc, got)
		}
	})
}
