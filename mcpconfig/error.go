package mcpconfig

import (
	"fmt"
	"regexp"
	"strconv"

	"github.com/waza-isolate/waza/internal/strictyaml"
)

// Error is an error in a server's configuration. Its text never contains the value of a
// field, which may be a secret.
type Error struct {
	Server  string
	Field   string // as in the file, such as env or services.db.env; empty if the error concerns the whole server
	Key     string // key of a map's value, or index in a list; may be empty
	Message string
}

func (e *Error) Error() string {
	return fmt.Sprintf("server %q: %s", e.Server, e.Message)
}

// Errors holds all errors in one or more servers.
type Errors = strictyaml.List[*Error]

// findings collects the errors of one server.
type findings struct {
	server string
	all    Errors
}

var plainKey = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_-]*$`)

// where formats a field and a key for people: args[1], env.TOKEN, files["/x"].
func where(field, key string) string {
	if key == "" {
		return field
	}
	if _, err := strconv.Atoi(key); err == nil {
		return fmt.Sprintf("%s[%s]", field, key)
	}
	if !plainKey.MatchString(key) {
		return fmt.Sprintf("%s[%q]", field, key)
	}
	return field + "." + key
}
