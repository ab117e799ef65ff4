package recorded

import (
	"bytes"
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/waza-isolate/waza/evidence/secret"
	"github.com/waza-isolate/waza/internal/heavytest"
)

// Requests that differ only in a secret have the same digest, and no guess at the
// secret has it, however large they are.
func TestDigestTellsNoSecret(t *testing.T) {
	heavytest.Mark(t)
	t.Parallel()
	var secrets secret.Set
	secrets.Add("pin-0427")
	secrets.Add("pin-9999")
	clean := func(w io.Writer, doc []byte) error {
		_, err := secrets.WriteJSON(w, doc)
		return err
	}
	plain := func(pin, filler string) []byte {
		return []byte(`{"model":"m","messages":[{"content":"the pin is ` + pin + `"},"` + filler + `"]}`)
	}
	for name, filler := range map[string]string{"small": "", "large": strings.Repeat("x", maxNormal)} {
		kept := Digest(clean, "POST", "/x?pin=pin-0427", plain("pin-0427", filler))
		if kept != Digest(clean, "POST", "/x?pin=pin-9999", plain("pin-9999", filler)) {
			t.Errorf("%s: it tells which secret it was", name)
		}
		if kept == Digest(asItIs, "POST", "/x?pin=pin-0427", plain("pin-0427", filler)) {
			t.Errorf("%s: it is that of the request with its secret", name)
		}
		if kept != Digest(asItIs, "POST", "/x?pin=********", bytes.ReplaceAll(plain("pin-0427", filler), []byte("pin-0427"), []byte("********"))) {
			t.Errorf("%s: it is not that of the request as it is kept", name)
		}
	}
}

// TestDigest checks which differences of requests change the digest.
func TestDigest(t *testing.T) {
	t.Parallel()
	of := func(body string) string { return Digest(asItIs, "POST", "/x", []byte(body)) }
	base := of(`{"model":"m","messages":[{"content":"on 2026-11-22 for 0b9d9a4e-1111-4222-8333-123456789abc at 127.0.0.1:4000"}]}`)
	for _, same := range []string{
		`{"messages":[{"content":"on 2026-11-23 for 1c9d9a4e-1111-4222-8333-123456789abc at 127.0.0.1:5000"}],"model":"m"}`,
		`{ "model":"m","user":"u","metadata":{"user_id":"x"},"prompt_cache_key":"k","messages":[{"cache_control":{"type":"ephemeral"},"content":"on 2027-01-01T10:00:00.5Z for 1c9d9a4e-1111-4222-8333-123456789ABC at 127.0.0.1:5"}]}`,
	} {
		if of(same) != base {
			t.Errorf("%s is another", same)
		}
	}
	for text, want := range map[string]string{
		"Today's date is Sunday, November 29, 2026 (formatted":      "Today's date is DATE (formatted",
		"  Today's date: Sun Nov 29 2026\n</env>":                   "  Today's date: DATE\n</env>",
		"on 29 November 2026, or 2 May, 2026 10:00:00Z; Nov 29":     "on DATE, or DATE; Nov 29",
		"Wall time: 0.0285 seconds\nOutput:":                        "Wall time: TIME seconds\nOutput:",
		" - OS Version: Linux 6.12.43+deb13-amd64\n - Shell":        " - OS Version: Linux RELEASE\n - Shell",
		"Linux agent 5.15.167.4-microsoft-standard-WSL2 #1":         "Linux agent RELEASE #1",
		"Debian GNU/Linux 12 (bookworm), Linux 6":                   "Debian GNU/Linux 12 (bookworm), Linux 6",
		"in 2026, Marching 20260 of 5 May 20261":                    "in 2026, Marching 20260 of 5 May 20261",
		"at /tmp/a-b/waza-0/eval-1f/pay-1-again-2/workspace/x-y.go": "at /workspace/x-y.go",
		`"/var/x y/waza-12/r/t-1" and /waza-1/r//t, ~/waza-isolate`: `"/var/x " and /waza-1/r//t, ~/waza-isolate`,
	} {
		if got := steadyText(text); got != want {
			t.Errorf("%s became %q, want %q", text, got, want)
		}
	}
	for _, other := range []string{
		`{"model":"n","messages":[{"content":"on 2026-11-22 for 0b9d9a4e-1111-4222-8333-123456789abc at 127.0.0.1:4000"}]}`,
		`{"model":"m","messages":[{"content":"off 2026-11-22 for 0b9d9a4e-1111-4222-8333-123456789abc at 127.0.0.1:4000"}]}`,
		`{"model":"m","messages":[{"content":"on 2026-11-22 for 0b9d9a4e-1111-4222-8333-123456789abc at 127.0.0.1:4000","user":"u"}]}`,
		`{"model":"m","messages":[{"content":"on 2026-11-22 for 0b9d9a4e-1111-4222-8333-123456789abc at 127.0.0.1:4000","cache_control":{"type":"string"}}]}`,
	} {
		if of(other) == base {
			t.Errorf("%s is the same", other)
		}
	}
	if of("x") == of("y") || Digest(asItIs, "GET", "/x", nil) == Digest(asItIs, "POST", "/x", nil) {
		t.Error("bodies that are no JSON, or methods, are not told apart")
	}
}

// Results of parallel calls come in any order, and all else in one.
func TestDigestOfResults(t *testing.T) {
	t.Parallel()
	of := func(items ...string) string {
		return Digest(asItIs, "POST", "/x", []byte(`{"model":"m","messages":[{"content":[`+strings.Join(items, ",")+`]}]}`))
	}
	for _, form := range []string{
		`{"type":"tool_result","tool_use_id":"ID","content":"TEXT"}`, `{"role":"tool","tool_call_id":"ID","content":"TEXT"}`,
		`{"type":"function_call_output","call_id":"ID","output":"TEXT"}`, `{"functionResponse":{"id":"ID","response":{"output":"TEXT"}}}`,
	} {
		result := func(id, text string) string { return strings.NewReplacer("ID", id, "TEXT", text).Replace(form) }
		a, b, said := result("a", "1"), result("b", "2"), `{"type":"text","text":"so"}`
		if of(said, a, b) != of(said, b, a) || of(a, b) == of(result("a", "2"), result("b", "1")) || of(a, said, b) == of(b, said, a) || of(said, a) == of(a, said) {
			t.Errorf("%s: orders are not told apart, or results not alike", form)
		}
	}
}

// What a conversation begins with is listed in any order, and all else in one.
func TestDigestOfBeginnings(t *testing.T) {
	t.Parallel()
	of := func(form string, items ...any) string {
		return Digest(asItIs, "POST", "/x", fmt.Appendf(nil, form, items...))
	}
	for _, form := range []string{
		`{"system":"Skills:\n- %s: does\n- %s: does"}`, `{"system":[{"text":"Skills:\n- %s\n- %s"}],"messages":[]}`,
		`{"tools":[{"name":"%s"},{"name":"%s"}]}`, `{"tools":[{"function":{"name":"%s"}},{"function":{"name":"%s"}}]}`,
		`{"tools":[{"functionDeclarations":[{"name":"skill","description":"of ('%s', '%s')","schema":{"enum":["b","a"]}}]}]}`,
		`{"tools":[{"schema":{"enum":["%s","%s"]}}]}`, `{"input":[{"role":"developer","content":[{"text":"%s\n%s"}]}]}`,
		`{"messages":[{"role":"system","content":"%s\n%s"}]}`,
	} {
		if of(form, "a", "b") != of(form, "b", "a") || of(form, "a", "b") == of(form, "a", "c") || of(form, "a", "b") == of(form, "a", "a") {
			t.Errorf("%s: orders are told apart, or names are not", form)
		}
	}
	for _, form := range []string{
		`{"messages":[{"role":"user","content":"%s\n%s"}]}`, `{"input":["%s","%s"]}`, `{"contents":[{"parts":[{"text":"'%s', '%s'"}]}]}`,
		`{"system":"%s comes before %s"}`, `{"tools":[{"name":"%s","description":"%s"}]}`,
	} {
		if of(form, "a", "b") == of(form, "b", "a") {
			t.Errorf("%s: orders are not told apart", form)
		}
	}
}

// FuzzNormal checks that no body prevents a request from being recognized, and that the order of
// members says nothing.
func FuzzNormal(f *testing.F) {
	f.Add([]byte(`{"b":1,"a":{"x":[1.0,"2026-01-02"]},"user":"u"}`))
	f.Add([]byte(`[1`))
	f.Add([]byte{0xff})
	f.Fuzz(func(t *testing.T, body []byte) {
		if one, two := Digest(asItIs, "POST", "/x", body), Digest(asItIs, "POST", "/x", append([]byte(nil), body...)); one != two || len(one) != 64 {
			t.Fatalf("%s, %s", one, two)
		}
	})
}
