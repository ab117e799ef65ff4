package grading

import (
	"encoding/json"
	"fmt"
	"regexp"
	"strings"

	"github.com/waza-isolate/waza/internal/jsontext"
	"github.com/waza-isolate/waza/internal/text"
)

// softError says how a successful result reads like an error, in a few words; empty
// where it does not. It looks at the structured content and at the first text: at an
// object's own word that something went wrong, or at how the text begins. It guesses.
func softError(result json.RawMessage) string {
	if why := objectError(jsontext.Member(result, "structuredContent")); why != "" {
		return why
	}
	for block := range jsontext.Elements(jsontext.Member(result, "content")) {
		if jsontext.Text(jsontext.Member(block, "type")) != "text" {
			continue
		}
		said := jsontext.Text(jsontext.Member(block, "text"))
		if why := objectError(json.RawMessage(said)); why != "" {
			return why
		}
		if errorText.MatchString(said) {
			return fmt.Sprintf("it begins with %s", quote(text.FirstLine(said)))
		}
		return ""
	}
	return ""
}

// objectError finds in an object the fields by which servers tell of errors.
func objectError(raw json.RawMessage) string {
	var fields map[string]json.RawMessage
	if json.Unmarshal(raw, &fields) != nil {
		return ""
	}
	for _, key := range []string{"error", "errors", "isError"} {
		switch value := strings.TrimSpace(string(fields[key])); value {
		case "", "null", "false", `""`, "[]", "{}", "0":
		default:
			return fmt.Sprintf("it has %s: %s", key, clip(value))
		}
	}
	for _, key := range []string{"success", "ok"} {
		if strings.TrimSpace(string(fields[key])) == "false" {
			return "it has " + key + ": false"
		}
	}
	var status string
	if json.Unmarshal(fields["status"], &status) == nil && failedStatus.MatchString(status) {
		return "it has status: " + clip(string(fields["status"]))
	}
	return ""
}

var (
	failedStatus = regexp.MustCompile(`(?i)\A(?:error|failed|failure)\z`)
	// errorText is how texts begin that tell of an error, after marks and pictures.
	errorText = regexp.MustCompile(`(?i)\A[^\pL\pN]*(?:` + strings.Join([]string{
		`(?:\w+ ){0,3}error\s*:`,
		`error (?:calling|executing|processing|fetching|reading|writing|while|when|in|during|occurred)\b`,
		`(?:failed|unable) to \w`, `could not \w`, `failure:`, `(?:unhandled |uncaught )?exception\b.{0,80}:`,
		`traceback \(most recent`, `unknown tool\b`, `(?:access|permission) denied\b`,
		`invalid (?:argument|parameter|request|input)s?\b`,
	}, "|") + `)`)
)
