package mcpconfig

import (
	"path"
	"regexp"
	"slices"
	"strings"
)

// plainCommand returns the program and the arguments that a client's command stands for. It splits a command
// in one string into words, removes a leading cmd /c, and replaces the name of a Windows program.
func plainCommand(words []string) []string {
	if split := splitCommand(words[0]); split != nil {
		words = slices.Concat(split, words[1:])
	}
	program := plainProgram(words[0])
	if program == "cmd" {
		for i, word := range words[1:] {
			switch {
			case strings.EqualFold(word, "/c") && len(words) > i+2:
				return plainCommand(words[i+2:])
			case !strings.HasPrefix(word, "/"):
				return words
			}
		}
		return words
	}
	return slices.Concat([]string{program}, words[1:])
}

var (
	windowsPath   = regexp.MustCompile(`^(?:[A-Za-z]:[\\/]|[^/]*\\)(?:.*[\\/])?`)
	windowsSuffix = regexp.MustCompile(`(?i)\.(cmd|exe|bat)$`)
	shellSyntax   = "|&;<>()`\n"
	commandWord   = regexp.MustCompile(`(?:\{[^}]*\}|"[^"]*"|'[^']*'|[^\s"'])+`)
	commandQuotes = regexp.MustCompile(`"[^"]*"|'[^']*'`)
)

// plainProgram returns the name of a Windows program on other systems.
func plainProgram(word string) string {
	name := windowsSuffix.ReplaceAllString(windowsPath.ReplaceAllString(word, ""), "")
	for _, known := range append(Launchers(), "cmd", "node", "python") {
		if strings.EqualFold(name, known) && (name != word || known == "cmd") {
			return known
		}
	}
	return name
}

// splitCommand splits a command in one string into words. It returns nil if there is only one word, or if the
// string is a path with blanks or needs a shell.
func splitCommand(command string) []string {
	if !strings.ContainsAny(command, " \t") || strings.ContainsAny(command, shellSyntax) {
		return nil
	}
	if strings.ContainsAny(commandWord.ReplaceAllString(command, ""), `"'`) {
		return nil
	}
	var words []string
	for _, word := range commandWord.FindAllString(command, -1) {
		words = append(words, commandQuotes.ReplaceAllStringFunc(word, func(quoted string) string { return quoted[1 : len(quoted)-1] }))
	}
	switch {
	case len(words) < 2 || words[0] == "":
		return nil
	case strings.ContainsAny(words[0], `/\`) && !slices.Contains(Launchers(), path.Base(plainProgram(words[0]))):
		return nil
	}
	return words
}
