package attacks

// Defenses against harmful text.

func plainText() Defence {
	return without(laxBuild, "text that nothing obeys", "InertText")
}

func setIn() Defence {
	return without(laxBuild, "strangers' lines that are set in", "IndentedText")
}

func clippedTexts() Defence {
	return without(laxBuild, "texts of which a terminal shows the beginning", "ClippedText")
}

func visibleText() Defence {
	return without(laxBuild, "text whose every character is seen", "VisibleText")
}

func escapedPages() Defence {
	return without(laxBuild, "pages by html/template", "EscapedPages")
}

// policyAndEscapes is a pair of defenses, since each alone keeps scripts from running.
func policyAndEscapes() Defence {
	return without(leakyBuild, "a Content-Security-Policy, behind pages by html/template", "PagePolicy", "EscapedPages")
}

func noAddresses() Defence {
	return kept("addresses of our own alone", "no page makes an address out of what a stranger said, so there is no line that keeps it from that")
}

func noAttributes() Defence {
	return kept("attributes of our own alone", "no page puts what a stranger said into an attribute; html/template would quote it there")
}

func boundedPages() Defence {
	return without(laxBuild, "bounds of what a page shows of a trial", "BoundedPages")
}

func escapedXML() Defence {
	return without(laxBuild, "JUnit files by encoding/xml", "EscapedXML")
}

func escapedMarkdown() Defence {
	return without(laxBuild, "references to characters for all that Markdown, HTML or GitHub reads", "EscapedMarkdown")
}

func servedAsText() Defence {
	return without(laxBuild, "files that are served as text alone", "FilesAsText")
}
