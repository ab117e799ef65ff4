package jsontext

import (
	"encoding/json"
	"math/big"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func TestCanonical(t *testing.T) {
	for _, test := range []struct {
		a, b string
		same bool
	}{
		{`{"a":1,"b":[2]}`, ` { "b":[2.0], "a":10e-1 } `, true},
		{`0e99999999999999999999`, `-0.0`, true},
		{`1e99999999999999999999`, `1e99999999999999999998`, false},
		{`9007199254740993`, `9007199254740992`, false},
		{`1`, `"1"`, false},
		{`1`, `true`, false},
		{`null`, `false`, false},
		{`["a","b"]`, `["b","a"]`, false},
		{`"\u0031"`, `"1"`, true},
	} {
		a, okA := Canonical([]byte(test.a))
		b, okB := Canonical([]byte(test.b))
		if !okA || !okB || (a == b) != test.same {
			t.Errorf("%s is %s, %s is %s", test.a, a, test.b, b)
		}
	}
	for _, none := range []string{"", "oops", "{} {}", "01"} {
		if form, ok := Canonical([]byte(none)); ok {
			t.Errorf("%q is %s", none, form)
		}
	}
}

func TestCompareNumbers(t *testing.T) {
	for _, test := range []struct {
		a, b string
		want int
	}{
		{"9007199254740993", "9007199254740992", 1},
		{"0.1", "1e-1", 0},
		{"-0", "0.0e5", 0},
		{"1e999999999", "1e1000000000", -1},
		{"-1e99999999999999999999", "-1", -1},
		{"1e-99999999999999999999", "1e-999999", -1},
		{"1e99999999999999999999", "1e999999", 1},
		{"1e99999999999999999999", "2e99999999999999999999", 0},
		{"12", "1.2e1", 0},
		{"-5", "-50", 1},
	} {
		if got := CompareNumbers(test.a, test.b); got != test.want {
			t.Errorf("compare %s with %s: %d", test.a, test.b, got)
		}
		if got := CompareNumbers(test.b, test.a); got != -test.want {
			t.Errorf("compare %s with %s: %d", test.b, test.a, got)
		}
	}
}

// number draws JSON numbers near each other.
func number() *rapid.Generator[string] {
	return rapid.StringMatching(`-?(0|[1-9][0-9]{0,2})(\.[0-9]{1,3})?([eE][+-]?[0-3])?`)
}

func TestIsHuge(t *testing.T) {
	for n, want := range map[string]bool{
		"0": false, "-1.5": false, "1e1000": false, "1E-1000": false, "1e+7": false, strings.Repeat("9", 1000): false,
		"1e1001": true, "1e-1001": true, "1e99999999999999999999": true, "0e-99999999999999999999": true, strings.Repeat("9", 1001): true, "0." + strings.Repeat("0", 999): true,
	} {
		if got := IsHuge(n); got != want {
			t.Errorf("%.20s is %t", n, got)
		}
	}
}

func TestNumbersAreAsBigRationals(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a, b := number().Draw(t, "a"), number().Draw(t, "b")
		x, _ := new(big.Rat).SetString(a)
		y, _ := new(big.Rat).SetString(b)
		if got, want := CompareNumbers(a, b), x.Cmp(y); got != want {
			t.Fatalf("%s to %s: %d, want %d", a, b, got, want)
		}
		if got, want := numberForm(a) == numberForm(b), x.Cmp(y) == 0; got != want {
			t.Fatalf("%s and %s are %s and %s", a, b, numberForm(a), numberForm(b))
		}
	})
}

// value draws JSON values that are often equal.
func value() *rapid.Generator[any] {
	leaf := rapid.OneOf(
		rapid.Map(number(), func(n string) any { return json.Number(n) }),
		rapid.Map(rapid.SampledFrom([]string{"", "1", "a", "\u00c9", "E\u0301"}), func(s string) any { return s }),
		rapid.Map(rapid.Bool(), func(b bool) any { return b }),
		rapid.Just[any](nil),
	)
	return rapid.OneOf(leaf,
		rapid.Map(rapid.SliceOfN(leaf, 0, 2), func(items []any) any { return items }),
		rapid.Map(rapid.MapOfN(rapid.SampledFrom([]string{"a", "b"}), leaf, 0, 2), func(m map[string]any) any { return m }),
	)
}

func TestEqualIsToShareAForm(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a, b := value().Draw(t, "a"), value().Draw(t, "b")
		if got, want := Equal(a, b), Form(a) == Form(b); got != want {
			t.Fatalf("%v and %v: %v, want %v", a, b, got, want)
		}
		if !Equal(a, a) {
			t.Fatalf("%v is not itself", a)
		}
	})
}

func FuzzCanonical(f *testing.F) {
	f.Add([]byte(`{"a":[1.0,"\ud800",null,-1e-99999999999999999999]}`))
	f.Fuzz(func(t *testing.T, raw []byte) {
		form, ok := Canonical(raw)
		if ok != json.Valid(raw) {
			t.Fatalf("%q is JSON: %v", raw, ok)
		}
		if again, _ := Canonical(raw); again != form {
			t.Fatalf("%q is %s and %s", raw, form, again)
		}
	})
}

func numberForm(n string) string { return string(AppendNumberForm(nil, n)) }
