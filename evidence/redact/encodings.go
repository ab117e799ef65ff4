package redact

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/waza-isolate/waza/evidence/scan"
)

// minLower is the shortest value that is also looked for in small letters. Shorter ones
// are too often words of their own then.
const minLower = 8

// form is one way in which a secret is written.
type form struct {
	of *value
	scan.Form
	wraps bool // line breaks may stand in it, as in base64
}

// formsOf lists the forms in which a value is looked for.
func formsOf(value string) (all []form) {
	inHex := scan.InHex(value).Text
	texts := slices.Concat([]string{value, inHex, strings.ToUpper(inHex)}, inJSON(value), inURL(value), inURL(quoted(value, false)))
	if lower := strings.ToLower(value); len(lower) >= minLower { // as names of hosts are written
		texts = append(texts, lower)
	}
	for _, text := range distinct(texts...) {
		all = append(all, form{Form: scan.Form{Text: text}})
	}
	for _, f := range scan.InBase64(value) {
		whole := f.Text
		for _, text := range distinct(
			whole,
			strings.NewReplacer("+", "%2B", "/", "%2F").Replace(whole), // in URLs
			strings.NewReplacer("+", "%2b", "/", "%2f").Replace(whole),
			strings.ReplaceAll(whole, "/", `\/`), // in JSON that escapes slashes
		) {
			f.Text = text
			all = append(all, form{Form: f, wraps: true})
		}
	}
	return all
}

// distinct returns texts, each once.
func distinct(texts ...string) []string {
	slices.Sort(texts)
	return slices.Compact(texts)
}

// nesting is how many JSON strings within each other a secret is looked for in.
const nesting = 3

// inJSON returns value as JSON's strings have it: escaped as little as can be, as HTML
// wants it, with slashes escaped, in ASCII, and escaped all over; and in strings
// within strings, as tool results hold JSON.
func inJSON(value string) (all []string) {
	everything := func(rune) bool { return true }
	beyondASCII := func(r rune) bool { return r >= utf8.RuneSelf }
	for _, form := range []string{
		quoted(value, false), quoted(value, true), strings.ReplaceAll(quoted(value, false), "/", `\/`),
		escaped(quoted(value, false), beyondASCII, `\u%04x`), escaped(quoted(value, false), beyondASCII, `\u%04X`),
		escaped(value, everything, `\u%04x`), escaped(value, everything, `\u%04X`),
	} {
		for range nesting {
			all = append(all, form, quoted(form, true))
			form = quoted(form, false)
		}
	}
	return all
}

// quoted returns value as it stands between a JSON string's quotes.
func quoted(value string, escapeHTML bool) string {
	var buf bytes.Buffer
	enc := json.NewEncoder(&buf)
	enc.SetEscapeHTML(escapeHTML)
	if err := enc.Encode(value); err != nil { // strings always encode
		return value
	}
	text := bytes.TrimSpace(buf.Bytes())
	return string(text[1 : len(text)-1])
}

// escaped returns value with those characters escaped that which says, in units of UTF-16.
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

// inURL returns value in a URL's path or query, or in a form: escaped as far as encoders
// do, in either case, a space as a plus too; and escaped all over.
func inURL(value string) (all []string) {
	const always = "-_." // besides letters and digits
	for _, plain := range []string{
		always + "~",                 // RFC 3986's unreserved characters
		always + "~!*'()",            // JavaScript's encodeURIComponent
		always + "~/",                // Python's quote
		always + "~$&+=:@",           // what a path's segment may hold
		always + "~;,/?:@&=+$!*'()#", // JavaScript's encodeURI
		always + "*",                 // HTML's forms
	} {
		for _, format := range []string{"%%%02X", "%%%02x"} {
			text := percent(value, format, func(c byte) bool { return isAlphanumeric(c) || strings.IndexByte(plain, c) >= 0 })
			all = append(all, text, strings.ReplaceAll(text, "%20", "+"))
		}
	}
	nothing := func(byte) bool { return false }
	return append(all, percent(value, "%%%02X", nothing), percent(value, "%%%02x", nothing))
}

// percent returns value with every byte escaped that is not plain.
func percent(value, format string, isPlain func(byte) bool) string {
	var b strings.Builder
	for _, c := range []byte(value) {
		if isPlain(c) {
			b.WriteByte(c)
		} else {
			fmt.Fprintf(&b, format, c)
		}
	}
	return b.String()
}

func isAlphanumeric(c byte) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9'
}
