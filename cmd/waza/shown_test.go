package main

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/urfave/cli/v3"
)

var (
	// fence is a fenced block of a document: what stands behind the fence, and the text.
	fence = regexp.MustCompile("(?ms)^```([^\n]*)\n(.*?)^```$")
	// shown is a command of ours in one.
	shown = regexp.MustCompile(`(?m)^(?:\$ )?(?:[A-Z_]+=\S+ )*(?:bin/)?waza ([a-z][^\n#|>&]*)`)
)

// TestDocumentsShowCommandsThatExist checks that every document shows commands and flags that
// there are.
func TestDocumentsShowCommandsThatExist(t *testing.T) {
	app, count := testApp(t), 0
	for _, glob := range []string{"*.md", "docs/*.md", "docs/howto/*.md"} {
		documents, err := filepath.Glob(filepath.Join("..", "..", glob))
		if err != nil {
			t.Fatal(err)
		}
		for _, document := range documents {
			text, err := os.ReadFile(document)
			if err != nil {
				t.Fatal(err)
			}
			for _, block := range fence.FindAllStringSubmatch(string(text), -1) {
				if !slices.Contains([]string{"", "console", "sh"}, block[1]) {
					continue
				}
				for _, match := range shown.FindAllStringSubmatch(block[2], -1) {
					count++
					if wrong := unknown(app, strings.Fields(match[1])); wrong != "" {
						t.Errorf("%s shows waza %s: there is no %s", document, match[1], wrong)
					}
				}
			}
		}
	}
	if count < 50 {
		t.Errorf("%d commands were found", count)
	}
}

// unknown is the first command or flag among words that there is not; empty if all are there.
func unknown(app *cli.Command, words []string) string {
	command := app.Command(words[0])
	if command == nil {
		return "command " + words[0]
	}
	for _, word := range words[1:] {
		if word == "--" {
			break
		}
		for _, sub := range command.Commands {
			if sub.Name == word {
				command = sub
			}
		}
		name, _, _ := strings.Cut(strings.TrimLeft(word, "-"), "=")
		named := func(f cli.Flag) bool { return slices.Contains(f.Names(), name) }
		if strings.HasPrefix(word, "--") && name != "help" && !slices.ContainsFunc(command.Flags, named) {
			return "flag --" + name
		}
	}
	return ""
}
