package schema

import (
	"testing"
	"time"
	"unicode/utf8"
)

// FuzzPattern matches hostile values with hostile patterns: in bounded time, and in linear
// time with the same result as by backtracking.
func FuzzPattern(f *testing.F) {
	for _, pattern := range []string{`^(?!\.)[a-z.]+$`, `^(a+)+\1$`, `(?<=\u0041|\p{Lu})\x42`, `[\s\b[:alpha:]-]`, `[^]|[]`, `\S.\/\-\w`, `(?i)\Aa\z`, `^(?<n>a{2,9})\k<n>`, `\`, `[\`} {
		f.Add(pattern, "aAbB \u00a0.")
	}
	f.Fuzz(func(t *testing.T, pattern, value string) {
		if !utf8.ValidString(pattern) || !utf8.ValidString(value) || len(pattern) > 200 || len(value) > 200 {
			return // JSON has only valid text; the limits themselves have a test
		}
		start := time.Now()
		both := func(e *expression, err error) (ok, known bool) {
			if err == nil {
				ok, err = e.match(value)
			}
			return ok, err == nil
		}
		both(compilePattern(pattern, &clock{}))
		if linear, ecma := translate(pattern); ecma && linear != "" {
			a, known := both(compileLinear(linear))
			b, also := both(compileBacktracking(pattern, &clock{}))
			if known && also && a != b {
				t.Errorf("%q of %q, which is %q: %v in linear time, %v by backtracking", pattern, value, linear, a, b)
			}
		}
		if took := time.Since(start); took > 20*time.Second {
			t.Errorf("%q of %q took %v", pattern, value, took)
		}
	})
}
