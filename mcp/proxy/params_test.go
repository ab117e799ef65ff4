package proxy

import (
	"encoding/base64"
	"net/http"
	"strings"
	"testing"
)

// listed is an answer to tools/list of one tool with this input schema.
func listed(tool, schema string) string {
	return `{"jsonrpc":"2.0","id":1,"result":{"tools":[{"name":"` + tool + `","inputSchema":` + schema + `}]}}`
}

const mirroring = `{"type":"object","properties":{
	"region":{"type":"string","x-mcp-header":"Region"},
	"level":{"type":"integer","x-mcp-header":"Level"},
	"dry":{"type":"boolean","x-mcp-header":"Dry"},
	"where":{"type":"object","properties":{"zone":{"type":"string","x-mcp-header":"Zone"}}},
	"plain":{"type":"string"},
	"odd":{"x-mcp-header":7}},
	"allOf":[{"properties":{"hidden":{"x-mcp-header":"Hidden"}}}]}`

func TestMirroredArguments(t *testing.T) {
	var m mirrors
	m.learn([]byte(listed("t", mirroring)))
	tests := []struct {
		name      string
		arguments string
		header    []string // after Mcp-Param-
		wrong     string   // part of the error, or ""
	}{
		{"none given", `{}`, nil, ""},
		{"no arguments", ``, nil, ""},
		{"a string", `{"region":"eu"}`, []string{"Region", "eu"}, ""},
		{"escaped in the body", `{"region":"\u0065u"}`, []string{"Region", "eu"}, ""},
		{"encoded", `{"region":"größe"}`, []string{"Region", "=?base64?Z3LDtsOfZQ==?="}, ""},
		{"encoded for nothing", `{"region":"eu"}`, []string{"Region", "=?base64?ZXU=?="}, ""},
		{"bad padding", `{"region":"eu"}`, []string{"Region", "=?base64?ZXU?="}, "decoded"},
		{"bad alphabet", `{"region":"eu"}`, []string{"Region", "=?base64?Z!U=?="}, "decoded"},
		{"only the prefix", `{"region":"=?base64?ZXU="}`, []string{"Region", "=?base64?ZXU="}, ""},
		{"bytes that need encoding", `{"region":"größe"}`, []string{"Region", "größe"}, "decoded"},
		{"another value", `{"region":"eu"}`, []string{"Region", "us"}, "does not match"},
		{"missing", `{"region":"eu"}`, nil, "missing"},
		{"twice", `{"region":"eu"}`, []string{"Region", "eu", "Region", "eu"}, "2 times"},
		{"not in the body", `{}`, []string{"Region", "eu"}, "is not"},
		{"null", `{"region":null}`, nil, ""},
		{"null and a header", `{"region":null}`, []string{"Region", "null"}, "is not"},
		{"an integer", `{"level":42}`, []string{"Level", "42"}, ""},
		{"an integer, otherwise written", `{"level":42.0}`, []string{"Level", "42"}, ""},
		{"a fraction", `{"level":42.5}`, []string{"Level", "42.5"}, "does not match"},
		{"an integer above 2^53", `{"level":9007199254740993}`, []string{"Level", "9007199254740993"}, "does not match"},
		{"a string for an integer", `{"level":"42"}`, []string{"Level", "42"}, ""},
		{"a boolean", `{"dry":true}`, []string{"Dry", "true"}, ""},
		{"a boolean, otherwise written", `{"dry":true}`, []string{"Dry", "True"}, "does not match"},
		{"nested", `{"where":{"zone":"b"}}`, []string{"Zone", "c"}, "where.zone"},
		{"an object for a string", `{"region":{}}`, []string{"Region", "{}"}, "does not match"},
		{"annotated where it does not count", `{"hidden":"x"}`, nil, ""},
		{"header without an annotation", `{"plain":"x"}`, []string{"Plain", "y"}, ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			h := http.Header{}
			for i := 0; i < len(tt.header); i += 2 {
				h.Add("Mcp-Param-"+tt.header[i], tt.header[i+1])
			}
			var wrong []string
			for _, mirrored := range m.of("t") {
				if w := checkMirrored(mirrored, h, []byte(tt.arguments)); w != "" {
					wrong = append(wrong, w)
				}
			}
			if got := strings.Join(wrong, "; "); (got == "") != (tt.wrong == "") || !strings.Contains(got, tt.wrong) {
				t.Errorf("got %q, want %q", got, tt.wrong)
			}
		})
	}
}

func TestMirrorsFollowTheList(t *testing.T) {
	var m mirrors
	m.learn([]byte(listed("t", mirroring)))
	m.learn([]byte(listed("other", `{"properties":{}}`))) // another page
	if n := len(m.of("t")); n != 4 {
		t.Errorf("%d arguments with headers, want 4", n)
	}
	m.learn([]byte(listed("t", `{"properties":{"region":{"type":"string"}}}`)))
	if n := len(m.of("t")); n != 0 {
		t.Errorf("%d arguments with headers after the tool lost them", n)
	}
}

func TestMirrorsAreBounded(t *testing.T) {
	deep := strings.Repeat(`{"properties":{"a":`, 1000) + `{}` + strings.Repeat(`}}`, 1000)
	wide := `{"properties":{` + strings.Repeat(`"a":{"x-mcp-header":"A"},`, 1000) + `"b":{}}}`
	var m mirrors
	m.learn([]byte(listed("deep", deep)))
	m.learn([]byte(listed("wide", wide)))
	if len(m.of("deep")) != 0 || len(m.of("wide")) > 64 {
		t.Errorf("%d and %d", len(m.of("deep")), len(m.of("wide")))
	}
	for i := range 2 * maxMirroringTools {
		m.learn([]byte(listed(base64.StdEncoding.EncodeToString([]byte{byte(i), byte(i >> 8)}), mirroring)))
	}
	if len(m.tools) > maxMirroringTools {
		t.Errorf("%d tools", len(m.tools))
	}
}

func FuzzMirrors(f *testing.F) {
	f.Add([]byte(listed("t", mirroring)), []byte(`{"region":"eu","where":{"zone":1}}`), "eu")
	f.Fuzz(func(t *testing.T, list, arguments []byte, value string) {
		if _, err := parse(list); err != nil {
			return
		}
		if _, err := parse([]byte(`{"jsonrpc":"2.0","method":"m","params":` + string(arguments) + `}`)); err != nil {
			return
		}
		var m mirrors
		m.learn(list)
		if len(m.tools) > maxMirroringTools {
			t.Fatalf("%d tools", len(m.tools))
		}
		for _, mirrored := range m.of("t") {
			h := http.Header{}
			h.Set(mirrored.Header, value)
			checkMirrored(mirrored, h, arguments)
		}
	})
}
