package jsontext

import (
	"encoding/json"
	"errors"
	"reflect"
	"testing"
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
