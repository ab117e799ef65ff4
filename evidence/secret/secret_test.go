package secret

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"slices"
	"strings"
	"testing"

	"go.uber.org/goleak"
	"pgregory.net/rapid"

	"github.com/waza-isolate/waza/internal/heavytest"
)

func set(secrets ...string) *Set {
	s := &Set{}
	for _, secret := range secrets {
		s.Add(secret)
	}
	return s
}

func TestBytes(t *testing.T) {
	heavytest.Mark(t)
	tests := []struct {
		name    string
		secrets []string
		in, out string
		count   int
	}{
		{"none", nil, "hello", "hello", 0},
		{"one", []string{"s3cret"}, "a s3cret b s3cret", "a ****** b ******", 2},
		{"one within another", []string{"s3cret", "s3cret-long"}, "s3cret-long s3cret", "*********** ******", 2},
		{"one over another", []string{"abcdef", "defghi"}, "xabcdefghiy", "x*********y", 1},
		{"over itself", []string{"abab"}, "ababab abab", "****** ****", 2},
		{"side by side", []string{"s3cret"}, "s3crets3cret", "************", 2},
		{"of asterisks", []string{"s3cret", "*****"}, "s3cret *****", "****** *****", 2},
		{"only blanks", []string{"    "}, "x    y", "x    y", 0},
		{"with blanks of its own", []string{"ab  cd"}, "ab  cd, ab cd", "******, ab cd", 1},
		{"too short to know", []string{"on"}, "on and on", "on and on", 0},
		{"in JSON", []string{`qu"ot\ed`}, `{"x":"qu\"ot\\ed"}`, `{"x":"**********"}`, 1},
		{"in JSON in JSON", []string{`qu"ot`}, `{"text":"{\"x\":\"qu\\\"ot\"}"}`, `{"text":"{\"x\":\"********\"}"}`, 1},
		{"of lines, in JSON", []string{"-----KEY\nabc\n"}, `{"k":"-----KEY\nabc\n"}`, `{"k":"*************\n"}`, 1},
		{"with HTML escaping", []string{"a&b<c"}, `"a\u0026b\u003cc"`, `"***************"`, 1},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			got, count := set(test.secrets...).Bytes([]byte(test.in))
			if string(got) != test.out || count.Spans != test.count {
				t.Errorf("got %q, %+v", got, count)
			}
		})
	}
	var nobody *Set
	if got, count := nobody.Bytes([]byte("x")); string(got) != "x" || count.Spans != 0 {
		t.Errorf("a nil set: %q, %+v", got, count)
	}
}

// stream writes text in the given chunks and returns what came out.
func stream(t interface{ Fatal(...any) }, s *Set, text string, chunks []int) string {
	var out bytes.Buffer
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

// covered is a simple implementation of Bytes: bytes in any occurrence of a secret are replaced.
func covered(secrets []string, text string) string {
	out := []byte(text)
	for i := range len(text) {
		for _, secret := range secrets {
			if strings.HasPrefix(text[i:], secret) {
				copy(out[i:], Marked(secret))
			}
		}
	}
	return string(out)
}

// TestWriter checks that splitting a stream does not change the result.
func TestWriter(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		word := rapid.StringMatching(`[abE*]{0,6}`)
		secrets := rapid.SliceOfN(rapid.StringMatching(`[abE*]{4,7}`), 0, 3).Draw(t, "secrets")
		parts := rapid.SliceOfN(rapid.OneOf(word, rapid.SampledFrom(append(secrets, ""))), 0, 10).Draw(t, "parts")
		chunks := rapid.SliceOf(rapid.IntRange(0, 9)).Draw(t, "chunks")
		text := strings.Join(parts, "")
		s := set(secrets...)
		want := covered(secrets, text)
		if got := s.String(text); got != want {
			t.Fatalf("%q became %q, want %q", text, got, want)
		}
		if got := stream(t, s, text, chunks); got != want {
			t.Fatalf("%q became %q cut as %v, want %q", text, got, chunks, want)
		}
	})
}

func FuzzWriter(f *testing.F) {
	f.Add("s3cret", "cret-two", "a s3cret-two b", uint8(3))
	f.Add("***a", "a***", "***a***", uint8(1))
	f.Fuzz(func(t *testing.T, one, two, text string, chunk uint8) {
		s := set(one, two)
		chunks := slices.Repeat([]int{int(chunk)}, len(text)/(int(chunk)+1)+1)
		if whole, cut := s.String(text), stream(t, s, text, chunks); whole != cut {
			t.Fatalf("%q became %q, cut %q", text, whole, cut)
		}
	})
}

// TestWriterFails checks that a failed write is told of, also that of the buffer.
func TestWriterFails(t *testing.T) {
	var none *Set
	if _, err := io.WriteString(NewWriter(none, broken{}), "text"); !errors.Is(err, errBroken) {
		t.Errorf("write: %v", err)
	}
	w := NewWriter(set("hunter22"), broken{})
	if _, err := io.WriteString(w, "hunter"); err != nil {
		t.Errorf("the beginning of a secret is written: %v", err)
	}
	if err := w.Close(); !errors.Is(err, errBroken) {
		t.Errorf("close: %v", err)
	}
}

var errBroken = errors.New("broken")

type broken struct{}

func (broken) Write([]byte) (int, error) { return 0, errBroken }

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func FuzzInJSON(f *testing.F) {
	f.Add("qu\"ot\\ed")
	f.Add("line\nline\u2028\x00é<>&")
	f.Fuzz(func(t *testing.T, secret string) {
		if len(secret) < MinLength {
			return
		}
		text, err := json.Marshal(map[string]string{"k": secret})
		if err != nil {
			return
		}
		got, count := set(secret).Bytes(text)
		if count.Spans == 0 {
			t.Fatalf("%q is not found in %q", secret, got)
		}
	})
}
