package schema_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/waza-isolate/waza/internal/schema"
)

// checkPattern checks a text against a pattern of a server.
func checkPattern(pattern, value string) schema.Finding {
	quoted, _ := json.Marshal(pattern)
	var c schema.Checker
	return c.Check(json.RawMessage(fmt.Sprintf(`{"pattern":%s}`, quoted)), value)
}

// Patterns are read as ECMA-262 says.
func TestPatterns(t *testing.T) {
	for _, test := range []struct {
		pattern  string
		fits     []string
		misfits  []string
		compiles bool // for a trusted author too
	}{
		{`^(?!\.)(?!.*\.\.)[a-z.]+@[a-z.]+$`, []string{"ada@example.com"}, []string{".ada@example.com", "a..b@c", "ada"}, true},
		{`^(?=.*\d)(?=.*[a-z]).{4,2000}$`, []string{"abc1", strings.Repeat("a1", 1000)}, []string{"abcd", "a1"}, true},
		{`(?<=\$)\d+(?<!0)$`, []string{"$15"}, []string{"15", "$10"}, true},
		{`^(a|b)\1$`, []string{"aa", "bb"}, []string{"ab"}, true},
		{`^(?<q>['"]).*\k<q>$`, []string{`"x"`, `'x'`}, []string{`"x'`}, true},
		{`^(?<year>\d{4})$`, []string{"2024"}, []string{"24"}, true},
		{`^\u0041\x42\u{43}$`, []string{"ABC"}, []string{"u0041"}, true},
		{`^[\u4e00-\u9fff]+$`, []string{"中文"}, []string{"a"}, true},
		{`^\uD83D\uDE00$`, []string{"😀"}, []string{"a"}, true},
		{`^.$`, []string{"😀", "\v"}, []string{"\n", "\r", "\u2028", ""}, true},
		{`^\s\S$`, []string{"\u00a0x", "\ufeffx", "\vx"}, []string{"x ", "\u200bx"}, true},
		{`^[\s-][^\S]$`, []string{"-\u00a0"}, []string{"--"}, true},
		{`^[^]$`, []string{"\n", "]"}, []string{"", "ab"}, true},
		{`^a|[]$`, []string{"ab"}, []string{"]"}, true},
		{`^[[:alpha:]]$`, []string{"a]", ":]"}, []string{"a", "b]"}, true},
		{`^[\w-.]+\.$`, []string{"a-."}, []string{"a"}, true},
		{`^[\b]\cA\0$`, []string{"\b\x01\x00"}, []string{"bcA0"}, true},
		{`^\p{Lu}\p{Letter}\p{Script=Greek}$`, []string{"Äbα"}, []string{"äbα", "Äbb"}, true},
		{`^\/\-\_\@\ $`, []string{"/-_@ "}, []string{"/"}, true},
		{`^.{1,4000}$`, []string{"a", strings.Repeat("a", 4000)}, []string{"", strings.Repeat("a", 4001)}, true},
		{`^a$`, []string{"a"}, []string{"a\n", "b\na"}, true},
		{`^{a{,2}}$`, []string{"{a{,2}}"}, []string{"{aa}"}, true},
		{`(?i)^ab$`, []string{"AB"}, []string{"abc"}, true}, // no ECMA-262, but RE2
		{`\Aab\z`, []string{"ab"}, []string{"Aabz"}, true},
		{`^(?P<n>a)$`, []string{"a"}, []string{"b"}, true},
		{`\Aab\Z`, []string{"ab", "x"}, nil, false},
		{`^(?>a+)b$`, []string{"ab", "x"}, nil, false},
		{`a++`, []string{"a", "x"}, nil, false},
		{`(`, []string{"a"}, nil, false},
		{`\`, []string{"a"}, nil, false},
	} {
		quoted, _ := json.Marshal(test.pattern)
		s, err := schema.Compile([]byte(`{"pattern":` + string(quoted) + `}`))
		if (err == nil) != test.compiles || err != nil && !strings.Contains(err.Error(), "is not an ECMA-262 regular expression") {
			t.Errorf("%s: %v", test.pattern, err)
		}
		for _, value := range slices.Concat(test.fits, test.misfits) {
			want := slices.Contains(test.fits, value)
			found := checkPattern(test.pattern, value)
			if found.Unknown != "" || found.Valid != want || (len(found.Unchecked) == 0) != test.compiles {
				t.Errorf("%s of %q: %+v; want %v", test.pattern, value, found, want)
			}
			if s != nil && s.Fits(value) != want {
				t.Errorf("%s of %q for its author: want %v", test.pattern, value, want)
			}
		}
	}
}

// Patterns that cannot be applied are left out of a check, which finds what else is wrong.
func TestUncheckedPatterns(t *testing.T) {
	const odd = `{"pattern":"a\\Z"}`
	for _, test := range []struct {
		schema, value string
		wrong         []string
	}{
		{odd, `"x"`, nil},
		{`{"not":` + odd + `}`, `"x"`, nil},
		{`{"properties":{"a":` + odd + `},"required":["b"]}`, `{"a":"x"}`, []string{"missing property 'b'"}},
		{`{"oneOf":[{"pattern":"a\\Z"},{"pattern":"b\\Z"}]}`, `"x"`, nil},
		{`{"patternProperties":{"a\\Z":{"type":"string"}},"additionalProperties":false}`, `{"x":1}`, nil},
		{`{"patternProperties":{"a\\Z":{"type":"string"}},"minProperties":2}`, `{"x":1}`, []string{"minProperties: got 1, want 2"}},
		{`{"propertyNames":` + odd + `,"properties":{"x":{"type":"string"}}}`, `{"x":1}`, []string{"/x: got number, want string"}},
	} {
		var c schema.Checker
		found := c.Check(json.RawMessage(test.schema), parse(t, test.value))
		if found.Valid != (test.wrong == nil) || !slices.Equal(found.Misfits, test.wrong) || found.Unknown != "" ||
			len(found.Unchecked) == 0 || !strings.Contains(found.Unchecked[0], `the pattern "a\\Z" of the input schema is not an ECMA-262 regular expression`) {
			t.Errorf("%s of %s: %+v", test.value, test.schema, found)
		}
	}
}

// Groups nest in a pattern, and not the parentheses that its character classes have.
func TestNestedPatterns(t *testing.T) {
	for pattern, want := range map[string]bool{
		"(?=a)" + strings.Repeat("[(?]?", 100): true,
		"(?=a)" + strings.Repeat("[^)]?", 100) + strings.Repeat("(?:a|", 100) + strings.Repeat(")", 100): false,
		"(?=a)" + strings.Repeat("[]|", 100) + strings.Repeat("(a|", 100) + strings.Repeat(")", 100):     false,
	} {
		quoted, _ := json.Marshal(pattern)
		var c schema.Checker
		found := c.Check(json.RawMessage(fmt.Sprintf(`{"pattern":%s}`, quoted)), "a")
		if applied := len(found.Unchecked) == 0; applied != want || !found.Valid {
			t.Errorf("%s: valid %v, unchecked %.200q", pattern, found.Valid, found.Unchecked)
		}
	}
}

// Hostile patterns and values take a bounded time, all together.
func TestSlowPatterns(t *testing.T) {
	long := strings.Repeat("a", 40) + "!"
	var values []any
	for i := range 10_000 {
		values = append(values, fmt.Sprint(long, i))
	}
	for i, test := range []struct{ name, pattern string }{
		{"exponential", `^(?=b|(a+)+$)`},
		{"as backreferences are", `^(a|a)*\1?b\1$`},
		{"nested lookaheads", strings.Repeat("(?=", 60) + "(a*)*b" + strings.Repeat(")", 60)},
		{"nested groups", strings.Repeat("(?:a|", 9_000) + "(?=b)" + strings.Repeat(")", 9_000)},
		{"nested alternatives", strings.Repeat(strings.Repeat("(?:a|b", 60)+strings.Repeat(")*", 60), 15) + "(?=b)"},
		{"large repeats", `(?=b)(?:(?:(?:a{0,99999}){0,99999}){0,99999}){0,99999}b`},
		{"lookbehinds", strings.Repeat(`(?<=(a*)*)`, 900) + "b"},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			start := time.Now()
			quoted, _ := json.Marshal(test.pattern)
			raw := fmt.Sprintf(`{"items":{"pattern":%s}}`, quoted)
			var c schema.Checker
			for range 3 {
				found := c.Check(json.RawMessage(raw), values)
				t.Logf("%v: valid %v, %d misfits, unchecked %.100q, unknown %q", time.Since(start), found.Valid, len(found.Misfits), found.Unchecked, found.Unknown)
			}
			if s, err := schema.Compile([]byte(raw)); err == nil && i == 0 {
				s.Fits(values)
			}
			if took := time.Since(start); took > 40*time.Second {
				t.Errorf("took %v", took)
			}
		})
	}
}
