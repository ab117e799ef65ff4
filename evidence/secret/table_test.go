package secret

import (
	"bytes"
	"compress/gzip"
	"encoding/ascii85"
	"encoding/base32"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"html"
	"mime/quotedprintable"
	"net/url"
	"os"
	"slices"
	"strings"
	"testing"
	"unicode/utf16"
)

// tried is every encoding that is tried, in the order of the table in docs/secrets.md.
var tried = []struct {
	name   string
	encode func(string) string
}{
	{"as it is", func(s string) string { return s }},
	{"in lower case", strings.ToLower},
	{"in upper case", strings.ToUpper},
	{"blanks between letters", func(s string) string { return strings.Join(strings.Split(s, ""), "  ") }},
	{"a line break between letters", func(s string) string { return s[:5] + "\r\n    " + s[5:] }},
	{"more than 16 blanks between letters", func(s string) string { return s[:5] + strings.Repeat(" ", 17) + s[5:] }},
	{"a hyphen between letters", func(s string) string { return s[:5] + "-" + s[5:] }},
	{"UTF-16", func(s string) string {
		var b strings.Builder
		for _, unit := range utf16.Encode([]rune(s)) {
			b.Write([]byte{byte(unit), byte(unit >> 8)})
		}
		return b.String()
	}},
	{"JSON", func(s string) string { return marshalled(s) }},
	{"JSON, every letter as `\\u0000`", func(s string) string { return allEscaped(s) }},
	{"JSON in JSON in JSON", func(s string) string { return marshalled(marshalled(marshalled(s))) }},
	{"JSON in strings, four deep", func(s string) string { return marshalled(marshalled(marshalled(marshalled(s)))) }},
	{"URL", url.QueryEscape},
	{"URL, every letter as `%00`", allPercent},
	{"URL in JSON", func(s string) string { return allEscaped(url.QueryEscape(s)) }},
	{"JSON in a URL", func(s string) string { return url.QueryEscape(marshalled(s)) }},
	{"URL in a URL", func(s string) string { return allPercent(allPercent(s)) }},
	{"hexadecimal digits", func(s string) string { return hex.EncodeToString([]byte(s)) }},
	{"hexadecimal digits in upper case, with blanks", func(s string) string { return fmt.Sprintf("% X", s) }},
	{"hexadecimal digits with colons", func(s string) string { return strings.ReplaceAll(fmt.Sprintf("% x", s), " ", ":") }},
	{"base64", func(s string) string { return base64.StdEncoding.EncodeToString([]byte(s)) }},
	{"base64 behind other bytes, such as `user:`", func(s string) string { return base64.StdEncoding.EncodeToString([]byte("user:" + s)) }},
	{"base64 for URLs", func(s string) string { return base64.RawURLEncoding.EncodeToString([]byte("x" + s)) }},
	{"base64 in lines", func(s string) string { return wrapped(base64.StdEncoding.EncodeToString([]byte(s)), 10, "\r\n  ") }},
	{"base64 in JSON or a URL", func(s string) string { return url.QueryEscape(base64.StdEncoding.EncodeToString([]byte(s))) }},
	{"base64 in base64", func(s string) string {
		return base64.StdEncoding.EncodeToString([]byte(base64.StdEncoding.EncodeToString([]byte(s))))
	}},
	{"base32", func(s string) string { return base32.StdEncoding.EncodeToString([]byte("xy" + s)) }},
	{"base32 with hexadecimal digits first", func(s string) string { return base32.HexEncoding.EncodeToString([]byte(s)) }},
	{"base85", func(s string) string {
		out := make([]byte, ascii85.MaxEncodedLen(len(s)))
		return string(out[:ascii85.Encode(out, []byte(s))])
	}},
	{"HTML", html.EscapeString},
	{"quoted-printable", func(s string) string {
		var b bytes.Buffer
		w := quotedprintable.NewWriter(&b)
		_, _ = w.Write([]byte(s))
		_ = w.Close()
		return b.String()
	}},
	{"reversed", func(s string) string {
		all := []byte(s)
		slices.Reverse(all)
		return string(all)
	}},
	{"rot13", func(s string) string {
		return strings.Map(func(c rune) rune {
			switch low := c | 0x20; {
			case low >= 'a' && low <= 'm':
				return c + 13
			case low >= 'n' && low <= 'z':
				return c - 13
			}
			return c
		}, s)
	}},
	{"gzip, also in base64", func(s string) string {
		var b bytes.Buffer
		w := gzip.NewWriter(&b)
		_, _ = w.Write([]byte(s))
		_ = w.Close()
		return base64.StdEncoding.EncodeToString(b.Bytes())
	}},
}

// The table in docs/secrets.md says of every encoding that is tried whether it is found, as a secret and
// as a canary.
func TestTable(t *testing.T) {
	const token = "Tr0ub4dor&zebra/77=Q\"x"
	s := set(token)
	canaries := canariesOf(t, Canary{"token", token})
	rows := []string{"| written as | found |", "|---|---|"}
	found := 0
	for _, one := range tried {
		text := []byte("x=" + one.encode(token) + " .")
		clean, redacted := s.Bytes(text)
		known := canaries.In(text)
		if (redacted.Spans > 0) != (len(known) > 0) {
			t.Errorf("%s: as a secret %v, as a canary %v", one.name, redacted, known)
		}
		if len(clean) != len(text) {
			t.Errorf("%s: %q became %q", one.name, text, clean)
		}
		row := "| " + one.name + " | no |"
		if redacted.Spans > 0 {
			found++
			row = "| " + one.name + " | yes |"
		}
		rows = append(rows, row)
	}
	if found < 20 {
		t.Errorf("only %d are found", found)
	}
	page, err := os.ReadFile("../../docs/secrets.md")
	if err != nil {
		t.Fatal(err)
	}
	if want := strings.Join(rows, "\n"); !strings.Contains(string(page), want) {
		t.Errorf("docs/secrets.md lacks this table:\n%s", want)
	}
}
