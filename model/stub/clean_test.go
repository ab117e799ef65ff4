package stub

import (
	"bytes"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"
)

// Responses that do not depend on a secret have the same ids for every secret, and others
// than answers over all.
func TestIdsTellNoSecret(t *testing.T) {
	s, err := Parse("s.yaml", []byte("turns: [{say: hello}]\n"))
	if err != nil {
		t.Fatal(err)
	}
	clean := s.HandlerOver(func(doc []byte) []byte { return regexp.MustCompile("pin-[0-9]+").ReplaceAll(doc, []byte("[REDACTED]")) })
	answer := func(over bool, pin string) string {
		handler := s.Handler()
		if over {
			handler = clean
		}
		w := httptest.NewRecorder()
		body := `{"model":"m","messages":[{"role":"user","content":"the pin is ` + pin + `"}]}`
		handler.ServeHTTP(w, httptest.NewRequest("POST", "/v1/chat/completions", strings.NewReader(body)))
		if w.Code != 200 || !bytes.Contains(w.Body.Bytes(), []byte("hello")) {
			t.Fatalf("%d: %s", w.Code, w.Body)
		}
		return w.Body.String()
	}
	if one, other := answer(true, "pin-0427"), answer(true, "pin-9999"); one != other || one == answer(false, "pin-0427") {
		t.Errorf("%s\n%s", one, other)
	}
}
