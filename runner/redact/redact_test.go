package redact

import (
	"bytes"
	"encoding/json"
	"io"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func set(secrets ...string) *Set {
	s := &Set{}
	for _, secret := range secrets {
		s.Add(secret)
	}
	return s
}

func TestBytes(t *testing.T) {
	tests := []struct {
		name    string
		secrets []string
		in, out string
		count   int
	}{
		{"none", nil, "hello", "hello", 0},
		{"one", []string{"s3cret"}, "a s3cret b s3cret", "a [REDACTED] b [REDACTED]", 2},
		{"one within another", []string{"s3cret", "s3cret-long"}, "s3cret-long s3cret", "[REDACTED] [REDACTED]", 2},
		{"too short to know", []string{"on"}, "on and on", "on and on", 0},
		{"in JSON", []string{`qu"ot\ed`}, `{"x":"qu\"ot\\ed"}`, `{"x":"[REDACTED]"}`, 1},
		{"in JSON in JSON", []string{`qu"ot`}, `{"text":"{\"x\":\"qu\\\"ot\"}"}`, `{"text":"{\"x\":\"[REDACTED]\"}"}`, 1},
		{"of lines, in JSON", []string{"-----KEY\nabc\n"}, `{"k":"-----KEY\nabc\n"}`, `{"k":"[REDACTED]"}`, 1},
		{"with HTML escaping", []string{"a&b<c"}, `"a\u0026b\u003cc"`, `"[REDACTED]"`, 1},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			got, count := set(test.secrets...).Bytes([]byte(test.in))
			if string(got) != test.out || count != test.count {
				t.Errorf("got %q, %d", got, count)
			}
		})
	}
	var nobody *Set
	if got, count := nobody.Bytes([]byte("x")); string(got) != "x" || count != 0 {
		t.Errorf("a nil set: %q, %d", got, count)
	}
}

type sink struct{ bytes.Buffer }

func (*sink) Close() error { return nil }

// stream writes text in the given chunks and returns what came out.
func stream(t interface{ Fatal(...any) }, s *Set, text string, chunks []int) string {
	var out sink
	w := NewWriter(s, &out)
	for _, n := range chunks {
		n = min(n, len(text))
		if _, err := w.Write([]byte(text[:n])); err != nil {
			t.Fatal(err)
		}
		text = text[n:]
	}
	if _, err := io.WriteString(w, text); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return out.String()
}

// TestWriter holds that no cut of a stream lets a secret through, and that text
// without a secret is not changed.
func TestWriter(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		word := rapid.StringMatching(`[abE\[\]]{0,6}`)
		secrets := rapid.SliceOfN(rapid.StringMatching(`[abE\[\]]{4,7}`), 0, 3).Draw(t, "secrets")
		parts := rapid.SliceOfN(rapid.OneOf(word, rapid.SampledFrom(append(secrets, ""))), 0, 10).Draw(t, "parts")
		chunks := rapid.SliceOf(rapid.IntRange(0, 9)).Draw(t, "chunks")
		text := strings.Join(parts, "")
		s := set(secrets...)
		got := stream(t, s, text, chunks)
		rest := strings.ReplaceAll(got, Mark, "\x00")
		for _, secret := range secrets {
			if strings.Contains(rest, secret) {
				t.Fatalf("%q came through in %q", secret, got)
			}
		}
		if whole := s.String(text); whole == text && got != text {
			t.Fatalf("%q was changed to %q", text, got)
		}
	})
}

func FuzzInJSON(f *testing.F) {
	f.Add("qu\"ot\\ed")
	f.Add("line\nline\u2028\x00é<>&")
	f.Fuzz(func(t *testing.T, secret string) {
		if len(secret) < minLength {
			return
		}
		text, err := json.Marshal(map[string]string{"k": secret})
		if err != nil {
			return
		}
		got, count := set(secret).Bytes(text)
		if count == 0 {
			t.Fatalf("%q is not found in %q", secret, got)
		}
	})
}
