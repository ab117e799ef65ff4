package gateway

import (
	"bytes"
	"io"
	"strings"
	"testing"

	"github.com/waza-isolate/waza/evidence/secret"
	"github.com/waza-isolate/waza/internal/heavytest"
)

// cleanRecord is a record that keeps no secrets.
type cleanRecord struct {
	*record
	secrets secret.Set
}

func (r *cleanRecord) Clean(w io.Writer, doc []byte) error {
	_, err := r.secrets.WriteJSON(w, doc)
	return err
}

// Requests that differ only in a secret have the same digest, and no guess at the
// secret has it, however large they are.
func TestDigestTellsNoSecret(t *testing.T) {
	heavytest.Mark(t)
	t.Parallel()
	rec := &cleanRecord{record: &record{}}
	rec.secrets.Add("pin-0427")
	rec.secrets.Add("pin-9999")
	plain := func(pin, filler string) []byte {
		return []byte(`{"model":"m","messages":[{"content":"the pin is ` + pin + `"},"` + filler + `"]}`)
	}
	for name, filler := range map[string]string{"small": "", "large": strings.Repeat("x", maxNormal)} {
		kept := digest(rec, "POST", "/x?pin=pin-0427", plain("pin-0427", filler))
		if kept != digest(rec, "POST", "/x?pin=pin-9999", plain("pin-9999", filler)) {
			t.Errorf("%s: it tells which secret it was", name)
		}
		if kept == digest(rec.record, "POST", "/x?pin=pin-0427", plain("pin-0427", filler)) {
			t.Errorf("%s: it is that of the request with its secret", name)
		}
		if kept != digest(rec.record, "POST", "/x?pin=********", bytes.ReplaceAll(plain("pin-0427", filler), []byte("pin-0427"), []byte("********"))) {
			t.Errorf("%s: it is not that of the request as it is kept", name)
		}
	}
}
