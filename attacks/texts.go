package attacks

// Defenses against harmful text.

func plainText() Defence {
	return without(laxBuild, "control characters are escaped", "InertText")
}

func setIn() Defence {
	return without(laxBuild, "foreign lines are indented", "IndentedText")
}

func clippedTexts() Defence {
	return without(laxBuild, "long texts are cut on terminals", "ClippedText")
}

func visibleText() Defence {
	return without(laxBuild, "invisible characters are escaped", "VisibleText")
}

func escapedPages() Defence {
	return without(laxBuild, "pages by html/template", "EscapedPages")
}

// policyAndEscapes is a pair of defenses, since each alone keeps scripts from running.
func policyAndEscapes() Defence {
	return without(leakyBuild, "a Content-Security-Policy, behind pages by html/template", "PagePolicy", "EscapedPages")
}

func noAddresses() Defence {
	return kept("no foreign text in URLs", "no page builds a URL from foreign text, so there is no code to disable")
}

func noAttributes() Defence {
	return kept("no foreign text in attributes", "no page puts foreign text into an attribute, where html/template would quote it")
}

func boundedPages() Defence {
	return without(laxBuild, "limits on what a page shows of a trial", "BoundedPages")
}

func escapedXML() Defence {
	return without(laxBuild, "JUnit files by encoding/xml", "EscapedXML")
}

func escapedMarkdown() Defence {
	return without(laxBuild, "everything that Markdown, HTML or GitHub interprets is escaped", "EscapedMarkdown")
}

func servedAsText() Defence {
	return without(laxBuild, "files are served only as plain text", "FilesAsText")
}
