package jsontext

import "testing"

func TestMoreThan(t *testing.T) {
	t.Parallel()
	for doc, has := range map[string]int{``: 0, `1`: 0, `{}`: 1, `[[],[{}]]`: 5, `{"a":"[,\"{","b":1}`: 2, `,,,`: 3, `"\`: 0} {
		if MoreThan(has, []byte(doc)) || has > 0 && !MoreThan(has-1, []byte(doc)) {
			t.Errorf("%s has not %d", doc, has)
		}
	}
}
