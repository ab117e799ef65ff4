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

// minLower is the minimum length of values that are also searched for in lower case.
// Shorter ones would too often match ordinary words.
const minLower = 8

// form is one encoding of a secret.
type form struct {
	of *value
	scan.Form
	wraps bool // may contain line breaks, as base64 does
}

// formsOf returns the encodings in which a value is searched for.
func formsOf(value string) (all []form) {
	inHex := scan.InHex(value).Text
	texts := slices.Concat([]string{value, inHex, strings.ToUpper(inHex)}, inJSON(value), inURL(value), inURL(quoted(value, false)))
	if lower := strings.ToLower(value); len(lower) >= minLower { // as host names are written
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

// distinct returns texts without duplicates, sorted.
func distinct(texts ...string) []string {
	slices.Sort(texts)
	return slices.Compact(texts)
}

// nesting is the number of nested JSON strings in which a secret is searched for.
const nesting = 3

// inJSON returns value in all forms it may have in a JSON string: minimally escaped,
// escaped for HTML, with escaped slashes, in ASCII, and fully escaped; also in nested
// strings, as in tool results that contain JSON.
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

// quoted returns value as it appears between the quotes of a JSON string.
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

// inURL returns value in all forms it may have in a URL's path or query, or in a form:
// escaped as by common encoders, with upper and lower case digits and with a plus for a
// space, and fully escaped.
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

// percent returns value with every byte escaped for which isPlain is false.
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
