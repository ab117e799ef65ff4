package report

import (
	"crypto/sha256"
	"embed"
	"encoding/base64"
	"io/fs"
	"strings"
	"sync"

	"github.com/waza-isolate/waza/internal/defence"
)

//go:embed assets templates
var files embed.FS

// Style and scripts are all of the pages' own, each in the order of its files' names. The
// early script runs before any page is read, the other behind them all.
var (
	style  = sync.OnceValue(func() string { return joined("assets/*.css") })
	early  = sync.OnceValue(func() string { return joined("assets/early.js") })
	script = sync.OnceValue(func() string { return joined("assets/[0-9]*.js") })
)

func joined(pattern string) string {
	names, err := fs.Glob(files, pattern)
	if err != nil {
		panic(err) // the pattern is ours
	}
	var all strings.Builder
	for _, name := range names {
		content, err := files.ReadFile(name)
		if err != nil {
			panic(err) // it was embedded
		}
		all.Write(content)
	}
	return all.String()
}

// Policy is the Content-Security-Policy of every page: our style and scripts by their
// hashes, no other, and nothing from anywhere. Pages of a server may ask that.
func Policy(served bool) string {
	if !defence.PagePolicy {
		return ""
	}
	parts := []string{
		"default-src 'none'", "style-src " + hashed(style()), "script-src " + hashed(early()) + " " + hashed(script()),
		"img-src data:", "base-uri 'none'",
	}
	if served {
		parts = append(parts, "form-action 'self'", "connect-src 'self'")
	} else {
		parts = append(parts, "form-action 'none'")
	}
	return strings.Join(parts, "; ")
}

func hashed(source string) string {
	sum := sha256.Sum256([]byte(source))
	return "'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) + "'"
}
