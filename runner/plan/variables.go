package plan

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/waza-isolate/waza/eval"
	"github.com/waza-isolate/waza/internal/files"
	"github.com/waza-isolate/waza/mcpconfig"
)

const (
	// minVariable is the minimum length of a secret value of a variable, in bytes; minDigits is that
	// of a value with only digits. Shorter values, such as 8080 and true, occur in other text by
	// chance.
	minVariable = 6
	minDigits   = 12
	// maxWritten is how many bytes are read of each of the eval's files.
	maxWritten = 1 << 20
)

// writtenIn returns the contents of the eval's own files: the eval, its tasks, and the files of its
// prompts, graders and mocks. It skips files that cannot be read.
func writtenIn(e *eval.Eval, tasks []eval.ResolvedTask) (all [][]byte) {
	paths := slices.Concat([]string{e.Path}, e.TextFiles, e.MockFiles)
	for _, task := range tasks {
		paths = append(paths, task.Path)
	}
	slices.Sort(paths)
	for _, path := range slices.Compact(paths) {
		if content, err := files.Read(path, maxWritten); err == nil {
			all = append(all, content)
		}
	}
	return all
}

// hide adds the secret values of variables to the plan's secrets, and returns them. A value that
// the eval's files contain as a word is not secret: redacting it would hide what graders look for.
func (c Choices) hide(values []mcpconfig.Value) (secrets []string) {
	for _, v := range values {
		if why := c.whyNotSecret(v.Text); why != "" {
			if c.Open != nil {
				c.Open(v.Variable, why)
			}
			continue
		}
		c.Secrets.Add(v.Text, v.Variable)
		secrets = append(secrets, v.Text)
	}
	return secrets
}

// whyNotSecret returns why a variable's value is not secret, or "".
func (c Choices) whyNotSecret(value string) (why string) {
	switch digits := strings.Trim(value, "0123456789") == ""; {
	case len(value) < minVariable:
		return fmt.Sprintf("it has fewer than %d bytes", minVariable)
	case digits && len(value) < minDigits:
		return fmt.Sprintf("it is a number of fewer than %d digits", minDigits)
	case slices.ContainsFunc(c.written, func(text []byte) bool { return hasWord(text, value) }):
		return "the eval's own files contain it"
	}
	return ""
}

// hasWord reports whether a text contains a value with no letter or digit next to it.
func hasWord(text []byte, value string) bool {
	inWord := func(r rune) bool { return r == '_' || unicode.IsLetter(r) || unicode.IsDigit(r) }
	for at := 0; ; at++ {
		i := bytes.Index(text[at:], []byte(value))
		if i < 0 {
			return false
		}
		at += i
		before, _ := utf8.DecodeLastRune(text[:at])
		after, _ := utf8.DecodeRune(text[at+len(value):])
		if !inWord(before) && !inWord(after) {
			return true
		}
	}
}
