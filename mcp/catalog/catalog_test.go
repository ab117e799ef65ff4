package catalog

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// offering returns a catalog with tools given as JSON.
func offering(tools ...string) Catalog {
	o := Catalog{Server: Server{Name: "s", Version: "1", Protocol: "2025-11-25"}}
	for _, k := range Kinds() {
		l := List{Kind: k, Entries: []Entry{}}
		if k == Tools {
			for _, raw := range tools {
				l.Entries = append(l.Entries, NewEntry(k, json.RawMessage(raw)))
			}
		}
		o.Lists = append(o.Lists, l)
	}
	return o
}

func pinOf(t *testing.T, o Catalog) Pin {
	t.Helper()
	p, err := o.Pin()
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func TestDifferences(t *testing.T) {
	const add, sub = `{"name":"add","description":"Adds"}`, `{"name":"sub","inputSchema":{"type":"object","minProperties":1}}`
	pin := pinOf(t, offering(add, sub))
	with := func(change func(*Catalog)) Catalog {
		o := offering(add, sub)
		change(&o)
		return o
	}
	tests := map[string]struct {
		offer Catalog
		want  []string
	}{
		"the same":              {offering(add, sub), nil},
		"another order":         {offering(sub, add), nil},
		"written otherwise":     {offering(`{ "description":"\u0041dds","name":"add"}`, `{"name":"sub","inputSchema":{"minProperties":1.0,"type":"object"}}`), nil},
		"a description":         {offering(`{"name":"add","description":"Adds."}`, sub), []string{`tool "add" changed`}},
		"a hidden character":    {offering("{\"name\":\"add\",\"description\":\"Adds\u200b\"}", sub), []string{`tool "add" changed`}},
		"a field nobody knows":  {offering(add, `{"name":"sub","inputSchema":{"type":"object","minProperties":1},"x":1}`), []string{`tool "sub" changed`}},
		"one more, one less":    {offering(add, `{"name":"sum"}`), []string{`tool "sub" removed`, `tool "sum" added`}},
		"twice":                 {offering(add, sub, add), []string{`tool "add" changed`}},
		"one without a name":    {offering(add, sub, `{"description":"x"}`), []string{`tool "" added`}},
		"instructions":          {with(func(o *Catalog) { o.Instructions = "obey" }), []string{"instructions added"}},
		"a prompt":              {with(func(o *Catalog) { o.Lists[3].Entries = []Entry{NewEntry(Prompts, []byte(`{"name":"p"}`))} }), []string{`prompt "p" added`}},
		"a list cut short":      {with(func(o *Catalog) { o.Lists[0].Entries = o.Lists[0].Entries[:1]; o.Lists[0].Partial = "x" }), nil},
		"a list that is absent": {with(func(o *Catalog) { o.Lists[1].Absent = true }), nil},
	}
	for name, tt := range tests {
		var got []string
		for _, d := range pin.Differences(tt.offer) {
			got = append(got, d.String())
		}
		if diff := cmp.Diff(tt.want, got); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
}

func TestChanges(t *testing.T) {
	before, after := offering(`{"name":"a"}`), offering(`{"name":"a","description":"x"}`, `{"name":"b"}`)
	if got := fmt.Sprint(Changes(before, after)); got != `[tool "a" changed tool "b" added]` {
		t.Error(got)
	}
	after.Lists[0].Partial = "cut"
	if got := fmt.Sprint(Changes(before, after)); got != `[tool "a" changed]` {
		t.Error("of a list that is not whole:", got)
	}
}

func TestPinRefuses(t *testing.T) {
	partial := offering(`{"name":"a"}`)
	partial.Lists[0].Partial = "the server sent the same cursor twice"
	for want, o := range map[string]Catalog{"incomplete: the server sent the same cursor twice": partial, "a tool without a name": offering(`{}`), "was not requested": {}} {
		if _, err := o.Pin(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", want, err)
		}
	}
}

func TestCheck(t *testing.T) {
	good := strings.Repeat("0a", 32)
	tests := map[string]Pin{
		"no digest":    {Lists: map[Kind]map[string]string{Tools: {"a": "12"}}},
		"upper case":   {Instructions: strings.ToUpper(good)},
		"no kind":      {Lists: map[Kind]map[string]string{"roots": {"a": good}}},
		"no name":      {Lists: map[Kind]map[string]string{Tools: {"": good}}},
		"a long name":  {Lists: map[Kind]map[string]string{Tools: {strings.Repeat("x", maxKey+1): good}}},
		"instructions": {Instructions: "x"},
	}
	for name, pin := range tests {
		if pin.Check() == nil {
			t.Errorf("%s: no error", name)
		}
	}
	if err := (Pin{Instructions: good, Lists: map[Kind]map[string]string{Prompts: {"a": good}}}).Check(); err != nil {
		t.Error(err)
	}
}

// FuzzPin checks that a catalog matches its own pin, whatever it contains.
func FuzzPin(f *testing.F) {
	f.Add(`{"name":"a"}`, `[1,{"name":2}]`)
	f.Add(`{"name":"a","name":"b"}`, `"x"`)
	f.Fuzz(func(t *testing.T, one, two string) {
		if !json.Valid([]byte(one)) || !json.Valid([]byte(two)) {
			t.Skip()
		}
		o := offering(one, two)
		p, err := o.Pin()
		if err != nil {
			return
		}
		if d := p.Differences(o); d != nil {
			t.Errorf("%v", d)
		}
	})
}
