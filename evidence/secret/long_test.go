package secret

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"github.com/waza-isolate/waza/internal/heavytest"
	"github.com/waza-isolate/waza/internal/jsontext"
)

// TestLongStrings checks that a string which is read in pieces becomes what it
// would in one, wherever a secret lies in it.
func TestLongStrings(t *testing.T) {
	heavytest.Mark(t)
	secret := "s3cret é😀"
	s := set(secret)
	for offset := range 40 {
		text := strings.Repeat("x", jsontext.Piece-20+offset) + secret + strings.Repeat("y", jsontext.Piece)
		for _, escaped := range []bool{false, true} {
			doc, err := json.Marshal(map[string]string{"a": text})
			if err != nil {
				t.Fatal(err)
			}
			if escaped {
				doc = bytes.ReplaceAll(doc, []byte("😀"), []byte(`\ud83d\ude00`))
			}
			inside := strings.ReplaceAll(string(doc), secret, Marked(secret))
			if escaped {
				inside = strings.ReplaceAll(string(doc), `s3cret é\ud83d\ude00`, Marked(`s3cret é\ud83d\ude00`))
			}
			want := []byte(inside)
			got, found := s.JSON(doc)
			if !bytes.Equal(got, want) || found.Spans != 1 {
				t.Fatalf("offset %d: %d bytes, want %d, found %+v", offset, len(got), len(want), found)
			}
		}
	}
	doc := []byte(`{"` + strings.Repeat("k", jsontext.Piece) + `s3cret é😀":1,"n":"\u0041` + strings.Repeat("z", jsontext.Piece) + `"}`)
	got, found := s.JSON(doc)
	if want := bytes.Replace(doc, []byte(secret), []byte(Marked(secret)), 1); !bytes.Equal(got, want) || found.Spans != 1 {
		t.Errorf("a long key: %d bytes, want %d, found %+v", len(got), len(want), found)
	}
}
