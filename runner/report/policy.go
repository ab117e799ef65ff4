package report

import (
	"crypto/sha256"
	"embed"
	"encoding/base64"
	"io/fs"
	"strings"
	"sync"
)

//go:embed assets templates
var files embed.FS

// Style and Script are all of the pages' own, each in the order of its files' names.
var (
	style  = sync.OnceValue(func() string { return joined("assets/*.css") })
	script = sync.OnceValue(func() string { return joined("assets/*.js") })
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

// Policy is the Content-Security-Policy of every page: our style and script by their
// hashes, no other, and nothing from anywhere. Pages of a server may ask that.
func Policy(served bool) string {
	parts := []string{
		"default-src 'none'", "style-src " + hashed(style()), "script-src " + hashed(script()),
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
