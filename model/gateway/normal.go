package gateway

import (
	"crypto/sha256"
	"encoding/hex"

	"github.com/waza-isolate/waza/internal/jsonvalue"
	"github.com/waza-isolate/waza/model/dialect"
)

// maxNormal is the largest body that is read to be told from others; a larger one, and
// one of too many values, is told by its bytes.
const maxNormal = 16 << 20

// identities are the members of a request's object that name who asks, in which
// conversation, and nothing that a model sees.
func identities() []string {
	return []string{"client_metadata", "metadata", "prompt_cache_key", "safety_identifier", "session_id", "user", "user_prompt_id"}
}

// digest tells requests with the same meaning: of method, path and body. Of a body that
// is a JSON object the members in identities are left out, what varies in its strings
// is replaced (see steadyText), and the rest is taken in canonical form. Any other body counts as it is.
func digest(method, path string, body []byte) string {
	sum := sha256.New()
	_, _ = sum.Write([]byte(method + "\n" + path + "\n"))
	_, _ = sum.Write(normal(body))
	return hex.EncodeToString(sum.Sum(nil))
}

func normal(body []byte) []byte {
	if len(body) > maxNormal || dialect.HasTooMany(body) {
		return body
	}
	value, err := jsonvalue.Parse(body)
	object, ok := value.(map[string]any)
	if err != nil || !ok {
		return body
	}
	for _, name := range identities() {
		delete(object, name)
	}
	return []byte(jsonvalue.Form(steady(object)))
}

// steady is v with what varies in its strings replaced. Keys stay.
func steady(v any) any {
	switch v := v.(type) {
	case map[string]any:
		for key, item := range v {
			v[key] = steady(item)
		}
	case []any:
		for i, item := range v {
			v[i] = steady(item)
		}
	case string:
		return steadyText(v)
	}
	return v
}
