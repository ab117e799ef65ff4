package attacks

// Defenses against harmful text.

func plainText() Defence {
	return kept("control characters are escaped", "tests of internal/text show what is left of each character")
}

func setIn() Defence {
	return kept("foreign lines are indented", "golden files of cmd/waza have what waza show prints")
}

func clippedTexts() Defence {
	return kept("long texts are cut on terminals", "golden files of cmd/waza have what waza show prints of long texts")
}

func visibleText() Defence {
	return kept("invisible characters are escaped", "tests of internal/text show how each invisible character is written")
}

func plainOutput() Defence {
	return kept("all output of a command passes one writer", "tests of internal/text show what passes the writer")
}

func escapedPages() Defence {
	return kept("pages by html/template", "tests of report and test/pages write and open pages with hostile texts")
}

func policyAndEscapes() Defence {
	return kept("a Content-Security-Policy, behind pages by html/template", "either alone keeps scripts from running, as tests of report and test/pages show")
}

func noAddresses() Defence {
	return kept("no foreign text in URLs", "no page builds a URL from foreign text, so there is no code to disable")
}

func noAttributes() Defence {
	return kept("no foreign text in attributes", "no page puts foreign text into an attribute, where html/template would quote it")
}

func boundedPages() Defence {
	return kept("limits on what a page shows of a trial", "tests of report show how large the page of a trial can be")
}

func escapedXML() Defence {
	return kept("JUnit files by encoding/xml", "tests of report/junit read what is written with hostile texts")
}

func escapedMarkdown() Defence {
	return kept("everything that Markdown, HTML or GitHub interprets is escaped", "tests of report/github show what hostile texts become")
}

func servedAsText() Defence {
	return kept("files are served only as plain text", "tests of serve show the type that each file is served as")
}
