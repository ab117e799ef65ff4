package secret

import (
	"bytes"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strings"
	"testing"
	"unicode/utf16"

	"pgregory.net/rapid"

	"github.com/waza-isolate/waza/internal/jsontext"
)

// odd is a secret that every encoding writes in another way than it is.
const odd = "s3cr/et+\"é😀\n<~>?&%41 \\=*:"

// wrapped is text in lines of a width, as MIME and PEM have them.
func wrapped(text string, width int, ending string) string {
	return strings.Join(slices.Collect(func(yield func(string) bool) {
		for line := range slices.Chunk([]byte(text), width) {
			if !yield(string(line)) {
				return
			}
		}
	}), ending)
}

func marshalled(v any) string {
	data, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return string(data)
}

// quoted returns value as it appears between the quotes of a JSON string.
func quoted(value string) string {
	text, _ := jsontext.Marshal(value)
	return string(text[1 : len(text)-1])
}

// escaped returns value with the characters selected by which escaped as UTF-16 units.
func escaped(value string, which func(rune) bool, format string) string {
	var b strings.Builder
	for _, r := range value {
		if !which(r) {
			b.WriteRune(r)
			continue
		}
		for _, unit := range utf16.Encode([]rune{r}) {
			fmt.Fprintf(&b, format, unit)
		}
	}
	return b.String()
}

// percent returns value with every byte escaped.
func percent(value, format string) string {
	var b strings.Builder
	for _, c := range []byte(value) {
		fmt.Fprintf(&b, format, c)
	}
	return b.String()
}

// encodings is what common encoders make of a text.
func encodings(text string) map[string]string {
	all := map[string]string{
		"plain":                  text,
		"hex":                    hex.EncodeToString([]byte(text)),
		"upper hex":              strings.ToUpper(hex.EncodeToString([]byte(text))),
		"query":                  url.QueryEscape(text),
		"lower query":            strings.ToLower(url.QueryEscape("\xff")) + lowerEscapes(url.QueryEscape(text)),
		"path":                   url.PathEscape(text),
		"percent":                percent(text, "%%%02X"),
		"lower percent":          percent(text, "%%%02x"),
		"JSON":                   marshalled(text),
		"JSON in JSON":           marshalled(marshalled(map[string]string{"k": text})),
		"JSON in JSON in JSON":   marshalled(marshalled(marshalled([]string{text}))),
		"all JSON escapes":       escaped(text, func(rune) bool { return true }, `\u%04x`),
		"all upper JSON escapes": escaped(text, func(rune) bool { return true }, `\u%04X`),
		"escapes in JSON":        marshalled(escaped(text, func(rune) bool { return true }, `\u%04x`)),
		"ASCII JSON":             escaped(quoted(text), func(r rune) bool { return r > 127 }, `\u%04x`),
		"small letters":          smallLetters(text),
		"JSON in a query":        url.QueryEscape(quoted(text)),
	}
	for name, encoding := range map[string]*base64.Encoding{
		"standard": base64.StdEncoding, "raw": base64.RawStdEncoding, "URL's": base64.URLEncoding, "raw URL's": base64.RawURLEncoding,
	} {
		for before := range 4 {
			for behind := range 4 {
				whole := encoding.EncodeToString([]byte("user:"[5-before:] + text + "?&x="[:behind]))
				name := fmt.Sprintf("%s base64, %d before, %d behind", name, before, behind)
				all[name] = whole
				all[name+", in a query"] = url.QueryEscape(whole)
				all[name+", slashes escaped"] = strings.ReplaceAll(whole, "/", `\/`)
				for _, width := range []int{5, 64, 76} {
					all[fmt.Sprint(name, ", lines of ", width)] = wrapped(whole, width, "\n")
					all[fmt.Sprint(name, ", CRLF lines of ", width)] = wrapped(whole, width, "\r\n")
				}
			}
		}
	}
	return all
}

// smallLetters returns a text in lowercase, as in host names, unless it is too short.
func smallLetters(text string) string {
	if len(text) < 8 {
		return text
	}
	return strings.ToLower(text)
}

// lowerEscapes is an escaped text with small hexadecimal digits.
func lowerEscapes(text string) string {
	var b strings.Builder
	for i := 0; i < len(text); i++ {
		if text[i] == '%' && i+2 < len(text) {
			b.WriteString(strings.ToLower(text[i : i+3]))
			i += 2
			continue
		}
		b.WriteByte(text[i])
	}
	return b.String()
}

// A secret is found in every common encoding, and nothing but its neighbours' is left
// of it: of base64 no digit that holds a bit of it.
func TestEncodings(t *testing.T) {
	for _, secret := range []string{odd, "hunter2!", "abcd", "GHp-Zk3v9QmB", "HIDE", strings.Repeat("Long secret / key + ", 40)} {
		s := &Set{}
		s.Add(secret, "NAME")
		for name, text := range encodings(secret) {
			got, found := s.Bytes([]byte("before " + text + " behind"))
			if found.Spans == 0 || found.Secrets["NAME"] != found.Spans {
				t.Errorf("%s of %.40q is not found: %q", name, secret, got)
				continue
			}
			rest := strings.ReplaceAll(strings.TrimSuffix(strings.TrimPrefix(string(got), "before "), " behind"), "*", "")
			if len(rest) > 30 || found.Spans > 1 {
				t.Errorf("%s of %.40q leaves %q", name, secret, got)
			}
		}
	}
}

// No base64 digit that a secret shares with its neighbors remains, at any offset.
func TestSharedDigits(t *testing.T) {
	for before := range 3 {
		for behind := range 3 {
			text := strings.Repeat("\x00", before) + "\xff\xff\xff\xff\xff" + strings.Repeat("\x00", behind)
			encoded := base64.StdEncoding.EncodeToString([]byte(text))
			got := set("\xff\xff\xff\xff\xff").String(encoded)
			if rest := strings.Trim(got, "A=*"); rest != "" {
				t.Errorf("%d before and %d behind: %s became %s", before, behind, encoded, got)
			}
		}
	}
}

// Text that starts like a secret but is none is not changed.
func TestNearlySecrets(t *testing.T) {
	s := set(odd, "hunter2!", "abcd", "Monday")
	for _, text := range []string{
		"monday", "hunter2", "68756e74657232", "aHVudGVyMg", "ab\ncd", "YWJj\nZQ", "\n\n\n\n", "%61%62%63", `\u0061\u0062\u0063`,
	} {
		if got, found := s.Bytes([]byte(text)); string(got) != text || found.Spans != 0 {
			t.Errorf("%q became %q", text, got)
		}
	}
}

// Splitting a stream of encoded secrets does not change the result.
func TestEncodedStreams(t *testing.T) {
	secrets := []string{odd, "hunter2!", "abcd"}
	s := set(secrets...)
	var parts []string
	for _, secret := range secrets {
		for _, text := range encodings(secret) {
			parts = append(parts, text)
		}
	}
	slices.Sort(parts)
	rapid.Check(t, func(t *rapid.T) {
		whole := rapid.SampledFrom(parts)
		cut := rapid.Map(whole, func(text string) string { return text[:rapid.IntRange(0, len(text)).Example(len(text))] })
		noise := rapid.StringMatching(`[ab%\\u0-9YWJjZA=\n\r]{0,8}`)
		text := strings.Join(rapid.SliceOfN(rapid.OneOf(whole, cut, noise), 0, 8).Draw(t, "parts"), "")
		chunks := rapid.SliceOf(rapid.IntRange(0, 40)).Draw(t, "chunks")
		if got, want := stream(t, s, text, chunks), s.String(text); got != want {
			t.Fatalf("%q became %q cut as %v, want %q", text, got, chunks, want)
		}
		if got := s.String(text); len(got) != len(text) {
			t.Fatalf("%q became %q", text, got)
		}
	})
}

// A stream that never decides holds back no more than a form.
func TestHeldBack(t *testing.T) {
	s := set("hunter2!")
	var out bytes.Buffer
	w := NewWriter(s, &out)
	begin := base64.StdEncoding.EncodeToString([]byte("hunter2!"))[:6]
	for range 1000 {
		if _, err := w.Write([]byte(begin + strings.Repeat("\n", 500))); err != nil {
			t.Fatal(err)
		}
		if len(w.held) > 100 {
			t.Fatalf("%d bytes are held back", len(w.held))
		}
	}
	if err := w.Close(); err != nil || w.Found().Spans != 0 {
		t.Errorf("%v, %+v", err, w.Found())
	}
}

func TestNames(t *testing.T) {
	s := &Set{}
	s.Add("hunter2!", "b/TOKEN", "a/TOKEN")
	s.Add("hunter2!", "a/TOKEN")
	s.Add("nameless")
	doc := []byte(`{"id":1,"result":{"a":"hunter2!","b":["aHVudGVyMiE=","nameless"]}}`)
	_, found := s.JSON(doc)
	want := map[string]int{"a/TOKEN": 2, "b/TOKEN": 2}
	if found.Spans != 3 || !maps.Equal(found.Secrets, want) {
		t.Errorf("found %+v", found)
	}
}

func FuzzEncoded(f *testing.F) {
	f.Add("hunter2!", "before", "behind", uint8(3))
	f.Add(odd, "user:", "\n", uint8(1))
	f.Fuzz(func(t *testing.T, secret, before, behind string, chunk uint8) {
		if len(secret) < MinLength || len(secret) > 200 || len(before)+len(behind) > 1000 {
			return
		}
		s := set(secret)
		for _, text := range []string{
			base64.StdEncoding.EncodeToString([]byte(before + secret + behind)), hex.EncodeToString([]byte(secret)), url.QueryEscape(secret),
		} {
			whole, found := s.Bytes([]byte(text))
			if found.Spans == 0 {
				t.Fatalf("%q is not found in %q", secret, text)
			}
			chunks := slices.Repeat([]int{int(chunk)}, len(text)/(int(chunk)+1)+1)
			if cut := stream(t, s, text, chunks); cut != string(whole) {
				t.Fatalf("%q became %q, cut %q", text, whole, cut)
			}
		}
	})
}

// fifty is a set of as many secrets, as tokens are.
func fifty() *Set {
	s := &Set{}
	for i := range 50 {
		s.Add(fmt.Sprintf("ghp_%02d/Zk3v+9QmB7c%02dXw1Lr8Tn5Hy2Jd6", i, 97*i%100))
	}
	return s
}

// BenchmarkWriter compares redaction with copying, with one secret and with fifty. In the
// last text, secrets seem to start everywhere.
func BenchmarkWriter(b *testing.B) {
	prose := strings.Repeat(`{"level":"info","msg":"GET /repos/acme/site/contents?ref=main%20branch 200 in 12ms"}`+"\n", 800)
	texts := map[string]string{
		"log":     prose,
		"base64":  base64.StdEncoding.EncodeToString([]byte(prose)),
		"escapes": strings.Repeat(`\u0067\u0068`, len(prose)/12),
		"begun":   strings.Repeat("ghp_4", len(prose)/5),
	}
	for _, name := range slices.Sorted(maps.Keys(texts)) {
		text := []byte(texts[name])
		for secrets, s := range map[string]*Set{"none": {}, "1 secret": set("ghp_Zk3v+9QmB7cXw1Lr8Tn5Hy2Jd6"), "50 secrets": fifty()} {
			b.Run(name+"/"+secrets, func(b *testing.B) {
				b.SetBytes(int64(len(text)))
				w := NewWriter(s, &bytes.Buffer{})
				for b.Loop() {
					w.out.(*bytes.Buffer).Reset()
					for chunk := range slices.Chunk(text, 32<<10) {
						if _, err := w.Write(chunk); err != nil {
							b.Fatal(err)
						}
					}
				}
			})
		}
	}
}
