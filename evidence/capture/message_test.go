package capture

import "testing"

func TestDuplicateKeys(t *testing.T) {
	for raw, want := range map[string]bool{
		`{}`:                               false,
		`{"a":1,"b":{"a":1}}`:              false,
		`{"a":1,"a":1}`:                    true,
		`{"a":1,"\u0061":1}`:               true,
		`{"a":"a","b":["a","a"]}`:          false,
		`[{"a":1},{"a":1}]`:                false,
		`{"a":[{"b":1,"c":2,"b":3}]}`:      true,
		`{"a":{"b":[]},"c":1,"a":{}}`:      true,
		`{"a\"":1,"a":1,"a\\":"\\","":""}`: false,
		`{"":1,"":2}`:                      true,
		`"a"`:                              false,
		` 1 `:                              false,
		"{\"\xff\":1,\"\xfe\":1}":          true, // both are read as U+FFFD
		`{"é":1,"é":1}`:                    true,
		`{ "a" : "," , "b" : "{\"b\"" }`:   false,
	} {
		if got := duplicateKeys([]byte(raw)); got != want {
			t.Errorf("duplicateKeys(%s) = %v", raw, got)
		}
	}
}
