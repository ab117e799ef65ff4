package proxy

import (
	"encoding/json"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/waza-isolate/waza/mcp/jsonrpc"
)

func TestInject(t *testing.T) {
	in := injections{{Number: 1, Text: `Do "this" <now>` + "\n"}, {Number: 2, Text: "and that", Match: "harbour"}}
	first, second := `{"type":"text","text":"Do \"this\" <now>\n"}`, `{"type":"text","text":"and that"}`
	all := func(jsonrpc.ID) injections { return in }
	for name, test := range map[string]struct {
		in, want string
		numbers  []int
	}{
		"behind the others":        {`{"id":1.0,"result":{"content":[ {"type":"text","text":"a"} ],"n":1e2}}`, `{"id":1.0,"result":{"content":[ {"type":"text","text":"a"} ,` + first + `],"n":1e2}}`, []int{1}},
		"alone":                    {`{"result":{"content":[]}}`, `{"result":{"content":[` + first + `]}}`, []int{1}},
		"alone in a blank":         {`{"result":{"content":[ ]}}`, `{"result":{"content":[ ` + first + `]}}`, []int{1}},
		"what it is for":           {`{"result":{"content":[{"type":"text","text":"the h\u0061rbour"}]}}`, `{"result":{"content":[{"type":"text","text":"the h\u0061rbour"},` + first + `,` + second + `]}}`, []int{1, 2}},
		"structured content stays": {`{"result":{"structuredContent":{"content":[]},"content":[1]}}`, `{"result":{"structuredContent":{"content":[]},"content":[1,` + first + `]}}`, []int{1}},
		"the last of two":          {`{"result":{"content":[]},"result":{"content":[],"content":[2]}}`, `{"result":{"content":[]},"result":{"content":[],"content":[2,` + first + `]}}`, []int{1}},
		"no result":                {`{"result":{"content":[],"isError":"no"}}`, "", nil},
		"no error":                 {`{"result":{"content":[],"isError":true}}`, "", nil},
		"no error either":          {`{"error":{"code":1,"message":"m","content":[]}}`, "", nil},
		"no list":                  {`{"result":{"content":{}}}`, "", nil},
		"no content":               {`{"result":{"resultType":"input_required"}}`, "", nil},
		"another case":             {`{"result":{"Content":[]}}`, "", nil},
	} {
		t.Run(name, func(t *testing.T) {
			if test.want == "" {
				test.want = test.in
			}
			got, numbers := inject([]byte(test.in), false, all)
			if string(got) != test.want || !slices.Equal(numbers, test.numbers) {
				t.Errorf("got  %s %v\nwant %s %v", got, numbers, test.want, test.numbers)
			}
		})
	}
	batch := `[{"id":1,"result":{"content":[]}}, {"id":"1","result":{"content":[0]}}]`
	got, _ := inject([]byte(batch), true, func(key jsonrpc.ID) injections {
		if key.Key == "s1" {
			return in
		}
		return nil
	})
	if want := `[{"id":1,"result":{"content":[]}}, {"id":"1","result":{"content":[0,` + first + `]}}]`; string(got) != want {
		t.Errorf("batch: %s", got)
	}
}

// FuzzInject checks that what a server says stays JSON, keeps all of its bytes in their
// order, and gets the text where a client looks for it.
func FuzzInject(f *testing.F) {
	f.Add([]byte(`{"jsonrpc":"2.0","id":1,"result":{"content":[{"type":"text","text":"a"}],"isError":false}}`))
	f.Add([]byte(`{"result":{"content":[],"content":[[]]},"Result":{"content":[]},"result":{"content":[{}]}}`))
	f.Add([]byte(`[{"id":1,"result":{"content":[]}},{"id":1,"result":{"content":[1]}}]`))
	in := injections{{Number: 1, Text: "injected"}}
	block := string(in[0].block())
	f.Fuzz(func(t *testing.T, raw []byte) {
		if !json.Valid(raw) {
			return
		}
		raw = slices.Clip(raw)
		batch := strings.HasPrefix(strings.TrimLeft(string(raw), " \t\r\n"), "[")
		out, numbers := inject(raw, batch, func(jsonrpc.ID) injections { return in })
		if !json.Valid(out) {
			t.Fatalf("%s became %s", raw, out)
		}
		if len(numbers) == 0 {
			if string(out) != string(raw) {
				t.Fatalf("%s became %s", raw, out)
			}
			return
		}
		if !strings.Contains(string(raw), block) {
			back := strings.ReplaceAll(strings.ReplaceAll(string(out), ","+block, ""), block, "")
			if back != string(raw) {
				t.Fatalf("%s became %s", raw, out)
			}
		}
	})
}

func TestCut(t *testing.T) {
	show := newToolFilter([]string{"a", "b"})
	all := func(jsonrpc.ID) bool { return true }
	for name, test := range map[string]struct{ in, want string }{
		"all stay":        {`{"id":1,"result":{"tools":[{"name":"a"}, {"name":"b"}]}}`, ""},
		"the first":       {`{"result":{"tools":[ {"name":"x"} , {"name":"a"} ]}}`, `{"result":{"tools":[ {"name":"a"} ]}}`},
		"the last":        {`{"result":{"tools":[ {"name":"a"} , {"name":"x"} ]}}`, `{"result":{"tools":[ {"name":"a"} ]}}`},
		"the middle":      {`{"result":{"tools":[{"name":"a"},{"name":"x"} ,{"name":"b","n":1.0}]}}`, `{"result":{"tools":[{"name":"a"} ,{"name":"b","n":1.0}]}}`},
		"all go":          {`{"result":{"tools":[ {"name":"x"},{"name":"y"}	]}}`, `{"result":{"tools":[ 	]}}`},
		"one goes":        {`{"result":{"tools":[{"name":"x"}]}}`, `{"result":{"tools":[]}}`},
		"the rest stays":  {`{"result":{"_meta":{"n":1e2},"tools":[{"name":"x"}],"nextCursor":"c"},"id":1.0,"jsonrpc":"2.0"}`, `{"result":{"_meta":{"n":1e2},"tools":[],"nextCursor":"c"},"id":1.0,"jsonrpc":"2.0"}`},
		"two names":       {`{"result":{"tools":[{"name":"x","name":"a"},{"name":"a","Name":"x"},{"name":"a"}]}}`, `{"result":{"tools":[{"name":"a"}]}}`},
		"an escaped name": {`{"result":{"tools":[{"name":"\u0061"},{"name":"\u0078"}]}}`, `{"result":{"tools":[{"name":"\u0061"}]}}`},
		"no tool":         {`{"result":{"tools":[1,"a",null,{},{"name":7},{"name":"a"}]}}`, `{"result":{"tools":[{"name":"a"}]}}`},
		"keys in case":    {`{"Result":{"TOOLS":[{"NAME":"x"}]}}`, `{"Result":{"TOOLS":[]}}`},
		"keys twice":      {`{"result":{"tools":[{"name":"x"}],"tools":[{"name":"y"}]},"result":{"tools":[{"name":"z"}]}}`, `{"result":{"tools":[],"tools":[]},"result":{"tools":[]}}`},
		"no list":         {`{"result":{"tools":{"name":"x"}}}`, ""},
		"an error":        {`{"id":1,"error":{"code":1,"message":"m","tools":[{"name":"x"}]}}`, ""},
	} {
		t.Run(name, func(t *testing.T) {
			if test.want == "" {
				test.want = test.in
			}
			if got := string(show.removeHidden([]byte(test.in), false, all)); got != test.want {
				t.Errorf("got  %s\nwant %s", got, test.want)
			}
		})
	}
	batch := `[{"id":1,"result":{"tools":[{"name":"x"}]}}, {"id":2,"result":{"tools":[{"name":"x"}]}}]`
	got := show.removeHidden([]byte(batch), true, func(key jsonrpc.ID) bool { return key.Key == "n2e0" })
	if want := `[{"id":1,"result":{"tools":[{"name":"x"}]}}, {"id":2,"result":{"tools":[]}}]`; string(got) != want {
		t.Errorf("batch: %s", got)
	}
}

// FuzzCut checks that the result is JSON without hidden tools, and that a message without
// hidden tools is unchanged.
func FuzzCut(f *testing.F) {
	f.Add([]byte(`{"jsonrpc":"2.0","id":1,"result":{"tools":[{"name":"x"}, {"name":"a"} ,{"name":"y"}]}}`))
	f.Add([]byte(`{"result":{"tools":[1,{"name":"a"},[]]},"Result":{"toolſ":[{"nAme":"x"}]}}`))
	show := newToolFilter([]string{"a"})
	f.Fuzz(func(t *testing.T, in []byte) {
		if !json.Valid(in) {
			return
		}
		in = slices.Clip(in)
		out := show.removeHidden(in, false, func(jsonrpc.ID) bool { return true })
		if !json.Valid(out) {
			t.Fatalf("%s became %s", in, out)
		}
		var left struct {
			Result struct {
				Tools []struct{ Name *string }
			}
		}
		if json.Unmarshal(out, &left) != nil {
			return
		}
		for _, tool := range left.Result.Tools {
			if tool.Name != nil && *tool.Name != "a" {
				t.Errorf("%s became %s", in, out)
			}
		}
		if again := show.removeHidden(out, false, func(jsonrpc.ID) bool { return true }); string(again) != string(out) {
			t.Errorf("%s became %s and then %s", in, out, again)
		}
	})
}

// A list of tools that is made of millions of nothings costs about its bytes.
func TestListOfManySmallElements(t *testing.T) {
	raw := []byte(`{"result":{"tools":[` + strings.Repeat("1,", 256<<10) + `{"name":"a"},` + strings.Repeat("1,", 256<<10) + `1]}}`)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	seen := newToolFilter([]string{"a"}).removeHidden(raw, false, func(jsonrpc.ID) bool { return true })
	runtime.ReadMemStats(&after)
	if string(seen) != `{"result":{"tools":[{"name":"a"}]}}` {
		t.Errorf("left are %d bytes", len(seen))
	}
	if n := after.TotalAlloc - before.TotalAlloc; n > uint64(4*len(raw)) {
		t.Errorf("%d bytes for a message of %d", n, len(raw))
	}
}
