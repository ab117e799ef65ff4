package attacks

// What makes texts harmless in pages. The terminal's is beside what else the build lacks.

// escapedPages writes pages by package text/template.
func escapedPages() Defence {
	return Defence{Name: "pages by html/template", Build: laxBuild, Edits: []Edit{
		{"runner/report/document.go", "import (\n\t\"bufio\"", "import (\n\tplain \"text/template\"\n\t\"bufio\""},
		{"runner/report/document.go", "var pages = sync.OnceValue(func() *template.Template {", "var pages = sync.OnceValue(func() *plain.Template {"},
		{"runner/report/document.go", `template.Must(template.New("").Funcs(funcs)`, `plain.Must(plain.New("").Funcs(plain.FuncMap(funcs))`},
	}}
}

// policyAndEscapes takes out both: each alone keeps scripts from running.
func policyAndEscapes() Defence {
	return Defence{Name: "a Content-Security-Policy, behind pages by html/template", Build: signalsBuild, Edits: append(escapedPages().Edits, Edit{
		"runner/report/policy.go", "return strings.Join(parts, \"; \")", "return \"\"",
	})}
}

func noAddresses() Defence {
	return Defence{Name: "addresses of our own alone", Kept: "no page makes an address out of what a stranger said, so there is no line that keeps it from that"}
}

func visibleText() Defence {
	return Defence{Name: "text whose every character is seen", Build: laxBuild, Edits: []Edit{{
		"internal/visible/visible.go", "case Hidden(r) || !unicode.IsGraphic(r):", "case Hidden(r) && r == 0:",
	}}}
}

func boundedPages() Defence {
	return Defence{Name: "bounds of what a page shows of a trial", Build: laxBuild, Edits: []Edit{{
		"runner/report/trial.go", "Bounds{Text: min(total/8, 64<<10), Total: total,", "Bounds{Text: 1 << 30, Total: 1 << 30,",
	}}}
}

func clippedTexts() Defence {
	return Defence{Name: "texts of which a terminal shows the beginning", Build: laxBuild, Edits: []Edit{
		{"cmd/waza/show.go", "shownLines = 12", "shownLines = 1 << 30"},
		{"cmd/waza/show.go", "shownBytes = 800", "shownBytes = 1 << 30"},
	}}
}

func escapedXML() Defence {
	return Defence{Name: "JUnit files by encoding/xml", Build: laxBuild, Edits: []Edit{{
		"runner/junit/text.go", "if err := e.EncodeToken(start); err != nil {\n",
		"if true {\n\t\treturn e.EncodeElement(struct {\n\t\t\tRaw string `xml:\",innerxml\"`\n\t\t}{string(t)}, start)\n\t}\n\tif err := e.EncodeToken(start); err != nil {\n",
	}}}
}

func escapedMarkdown() Defence {
	return Defence{Name: "references to characters for all that Markdown, HTML or GitHub reads", Build: laxBuild, Edits: []Edit{{
		"runner/markdown/escape.go", "for i, r := range s {\n", "for i, r := range s {\n\t\tif r != 0 {\n\t\t\tout.WriteRune(r)\n\t\t\tcontinue\n\t\t}\n",
	}}}
}

func servedAsText() Defence {
	return Defence{Name: "files that are served as text alone", Build: laxBuild, Edits: []Edit{{
		"serve/files.go", `h.Set("Content-Type", "text/plain; charset=utf-8")`, `h.Set("Content-Type", "text/html; charset=utf-8")`,
	}}}
}
