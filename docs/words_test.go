package docs_test

import (
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// mostWords is how much of README.md and of the pages in docs people may write by hand.
const mostWords = 50_000

var (
	// made are parts of pages that tests and scripts write or hold to the code.
	made = regexp.MustCompile(`(?s)<!-- Made of the code\. -->.*?<!-- end -->|<!-- Written by scripts/.*`)
	word = regexp.MustCompile(`\S*[\pL\d]\S*`)
)

// madePages are the pages that are generated as a whole.
func madePages() []string { return []string{"attacks.md", "cli.md", "keys.md", "packages.md"} }

// TestWords counts the words that people write by hand: a page says a thing once, reference is
// generated, history and figures go to decisions.md or away.
func TestWords(t *testing.T) {
	all := 0
	for _, document := range documents(t) {
		name, err := filepath.Rel(root, document)
		if err != nil {
			t.Fatal(err)
		}
		if name != "README.md" && !strings.HasPrefix(name, "docs") || slices.Contains(madePages(), filepath.Base(name)) {
			continue
		}
		text := made.ReplaceAllString(read(t, document), "")
		text = fence.ReplaceAllStringFunc(text, func(block string) string {
			if match := fence.FindStringSubmatch(block); match[1] == "console" { // TestConsole writes what commands print
				commands, _ := transcriptOf(match[2])
				return strings.Join(commands, "\n")
			}
			return block
		})
		count := len(word.FindAllString(text, -1))
		t.Logf("%6d %s", count, name)
		all += count
	}
	if t.Logf("%6d in all", all); all > mostWords {
		t.Errorf("people wrote %d words by hand, more than %d: say a thing once, and generate reference", all, mostWords)
	}
}
