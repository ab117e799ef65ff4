package stub

import (
	"encoding/json"
	"fmt"
	"strconv"
)

// generate is Google's generateContent.
type generate struct{}

func (generate) whole(a answer) any {
	parts := []any{}
	if a.says() {
		parts = append(parts, object{"text": a.text})
	}
	return generateBody(a, append(parts, generateCalls(a)...), "STOP", a.usage.Output)
}

func generateCalls(a answer) []any {
	var parts []any
	for i, u := range a.uses {
		parts = append(parts, object{"functionCall": object{
			"id": a.idOf("call", i), "name": u.tool.full(), "args": json.RawMessage(u.arguments),
		}})
	}
	return parts
}

func generateBody(a answer, parts []any, stop string, output int64) object {
	candidate := object{"index": 0, "content": object{"role": "model", "parts": parts}}
	if stop != "" {
		candidate["finishReason"] = stop
	}
	usage := object{"promptTokenCount": a.usage.Input, "candidatesTokenCount": output, "totalTokenCount": a.usage.Input + output}
	if a.usage.Cached > 0 {
		usage["cachedContentTokenCount"] = a.usage.Cached
	}
	return object{
		"candidates": []any{candidate}, "usageMetadata": usage,
		"modelVersion": a.model, "responseId": a.id("r"),
	}
}

// events has a text in words, and all calls whole in the event behind them.
func (generate) events(a answer, _ *request) []event {
	var all []event
	for _, word := range words(a.text) {
		all = append(all, event{data: generateBody(a, []any{object{"text": word}}, "", 0)})
	}
	last := generateCalls(a)
	if len(last) == 0 {
		last = []any{object{"text": ""}}
	}
	return append(all, event{data: generateBody(a, last, "STOP", a.usage.Output)})
}

func (generate) failure(status int, message string, retryAfter *float64) any {
	word := map[int]string{
		400: "INVALID_ARGUMENT", 401: "UNAUTHENTICATED", 403: "PERMISSION_DENIED", 404: "NOT_FOUND",
		429: "RESOURCE_EXHAUSTED", 500: "INTERNAL", 503: "UNAVAILABLE", 504: "DEADLINE_EXCEEDED",
	}[status]
	if word == "" {
		word = "UNKNOWN"
	}
	body := object{"code": status, "message": message, "status": word}
	if retryAfter != nil {
		body["details"] = []any{object{
			"@type":      "type.googleapis.com/google.rpc.RetryInfo",
			"retryDelay": fmt.Sprintf("%ss", strconv.FormatFloat(*retryAfter, 'f', -1, 64)),
		}}
	}
	return object{"error": body}
}
