package docs_test

import (
	"fmt"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/waza-isolate/waza/internal/golden"
)

// rawPages is where a program reads the pages.
const rawPages = "https://raw.githubusercontent.com/waza-isolate/waza/main/"

var (
	listed = regexp.MustCompile(`\]\(([^)#\s]+\.md)\)`)
	linked = regexp.MustCompile(`\[([^\]]*)\]\([^)]*\)`)
)

// TestLLMs writes llms.txt, in the format of llmstxt.org, from the list of pages in docs/README.md: the
// title and the first sentence of each.
func TestLLMs(t *testing.T) {
	readme := read(t, filepath.Join(root, "README.md"))
	var text strings.Builder
	fmt.Fprintf(&text, "# %s\n\n> %s\n", title(readme), about(readme))
	var pages []string
	for _, section := range strings.Split(read(t, "README.md"), "\n## ")[1:] {
		name, links, _ := strings.Cut(section, "\n")
		fmt.Fprintf(&text, "\n## %s\n\n", name)
		for _, match := range listed.FindAllStringSubmatch(links, -1) {
			page := read(t, match[1])
			pages = append(pages, match[1])
			fmt.Fprintf(&text, "- [%s](%s%s): %s\n", title(page), rawPages, filepath.ToSlash(filepath.Join("docs", match[1])), about(page))
		}
	}
	golden.Check(t, filepath.Join(root, "llms.txt"), text.String())
	for _, document := range documents(t) {
		page, err := filepath.Rel(filepath.Join(root, "docs"), document)
		if err != nil {
			t.Fatal(err)
		}
		if page != "README.md" && !strings.HasPrefix(page, "..") && !slices.Contains(pages, page) {
			t.Errorf("docs/README.md does not list %s", page)
		}
	}
}

func title(page string) string {
	first, _, _ := strings.Cut(page, "\n")
	return strings.TrimPrefix(first, "# ")
}

// about returns the first sentence of a page.
func about(page string) string {
	for _, paragraph := range strings.Split(fenced.ReplaceAllString(page, ""), "\n\n") {
		paragraph = strings.TrimSpace(paragraph)
		if paragraph == "" || strings.HasPrefix(paragraph, "#") || strings.HasPrefix(paragraph, "<!--") {
			continue
		}
		first, _, _ := strings.Cut(linked.ReplaceAllString(strings.ReplaceAll(paragraph, "\n", " "), "$1"), ". ")
		return strings.TrimRight(first, ".:")
	}
	return ""
}
