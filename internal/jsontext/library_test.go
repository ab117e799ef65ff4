package jsontext

import (
	"encoding/json"
	"errors"
	"reflect"
	"testing"
	"unicode/utf8"
)

type decoded struct {
	Text  string          `json:"text"`
	Raw   json.RawMessage `json:"raw"`
	Count *int            `json:"count"`
	List  []decoded       `json:"list"`
	Any   any             `json:"any"`
}

func TestUnmarshalCase(t *testing.T) {
	var got decoded
	if err := Unmarshal([]byte(`{"text":"a","Text":"b","TEXT":"c","list":[{"Text":"d"}]}`), &got); err != nil {
		t.Fatal(err)
	}
	if want := (decoded{Text: "a", List: []decoded{{}}}); !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v", got)
	}
}

func TestUnmarshalOtherTypes(t *testing.T) {
	var got decoded
	err := Unmarshal([]byte(`{"count":"one","list":[1,{"text":"b"}],"text":"a"}`), &got)
	var wrong *TypeError
	if !errors.As(err, &wrong) || wrong.Field != "count" {
		t.Errorf("got %v", err)
	}
	if got.Text != "a" || len(got.List) != 2 || got.List[1].Text != "b" {
		t.Errorf("got %+v", got)
	}
}

// What is marshalled is UTF-8, and says what a decoder reads in the value.
func TestMarshalIsUTF8(t *testing.T) {
	for _, raw := range []string{"\"caf\xe9\"", "{\"\xff\xfe\":[\"a\xc3\"]}", "\"\xed\xa0\x80\"", "\"\xf0\x9f\x98\"", `"é😀"`} {
		var want, got any
		if err := Unmarshal([]byte(raw), &want); err != nil {
			t.Fatal(err)
		}
		for _, marshal := range []func(any) ([]byte, error){Marshal, MarshalIndent} {
			data, err := marshal(json.RawMessage(raw))
			if err != nil || !utf8.Valid(data) || Unmarshal(data, &got) != nil || !reflect.DeepEqual(got, want) {
				t.Errorf("%q became %q, %v", raw, data, err)
			}
		}
	}
}

// FuzzUnmarshal checks that the package accepts and decodes the same values as the standard
// library, except for the case of keys.
func FuzzUnmarshal(f *testing.F) {
	for _, seed := range []string{`{"text":"a","raw":{"a":1},"count":3,"list":[{}],"any":[1e400]}`, "{\"text\":\"\xff\\ud800\"}", `{"text":1,"text":"b"}`, ` null `, `[1,]`, `{"raw":[1 ,2]}`, `{"a":1}{}`} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, in []byte) {
		if got, want := Valid(in), json.Valid(in); got != want {
			t.Fatalf("%q is valid: %v", in, got)
		}
		var got, want any
		gotErr, wantErr := Unmarshal(in, &got), json.Unmarshal(in, &want)
		if (gotErr == nil) != (wantErr == nil) || gotErr == nil && !reflect.DeepEqual(got, want) {
			t.Fatalf("%q is %v, %v; want %v, %v", in, got, gotErr, want, wantErr)
		}
		var typed decoded
		_ = Unmarshal(in, &typed) // does not panic
	})
}
