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
		"runner/reporting.go", "report.Bounds{Text: 64 << 10, Total: 4 << 20, Calls: 10_000}", "report.Bounds{Text: 1 << 40, Total: 1 << 40, Calls: 1 << 40}",
	}}}
}

func clippedTexts() Defence {
	return Defence{Name: "texts of which a terminal shows the beginning", Build: laxBuild, Edits: []Edit{
		{"cmd/waza/show.go", "shownLines = 12", "shownLines = 1 << 30"},
		{"cmd/waza/show.go", "shownBytes = 800", "shownBytes = 1 << 30"},
	}}
}
