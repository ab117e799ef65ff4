package dialect

import (
	"crypto/sha1"
	"encoding/hex"
	"strings"
)

// MaxToolName is the maximum length of a tool's name in APIs of models.
const MaxToolName = 64

// NameOf returns the name of a server's tool for APIs of models: mcp__SERVER__TOOL, with _ in place
// of characters that the APIs reject. A name that is too long is shortened to its beginning and a
// digest of the whole.
func NameOf(server, tool string) string {
	if name, long := LongNameOf(server, tool); long {
		return name
	}
	return Spelled("mcp__"+server+"__"+tool, true)
}

// LongNameOf returns a name that is too long in Codex's form: its beginning, and the SHA-1 of the
// whole.
func LongNameOf(server, tool string) (name string, long bool) {
	raw := "mcp__" + server + "__" + tool
	if len(raw) <= MaxToolName {
		return "", false
	}
	sum := sha1.Sum([]byte(raw))
	digest := hex.EncodeToString(sum[:])
	return Spelled(raw, true)[:MaxToolName-len(digest)] + digest, true
}

// Spelled returns a name with _ in place of characters that APIs of models reject, and of hyphens
// unless hyphens is set.
func Spelled(name string, hyphens bool) string {
	return strings.Map(func(c rune) rune {
		switch {
		case c >= 'a' && c <= 'z', c >= 'A' && c <= 'Z', c >= '0' && c <= '9', c == '_', c == '-' && hyphens:
			return c
		}
		return '_'
	}, name)
}
