package changes

import (
	"unicode"
	"unicode/utf8"
)

// Words returns the ranges of bytes in which the words of two texts differ. If the texts share no word, the
// ranges cover both. A word is a run of letters and digits, or any other character except white space.
func Words(before, after string) (old, now [][2]int) {
	olds, nows := words(before), words(after)
	for _, h := range hunks(oneALine(before, olds), oneALine(after, nows)) {
		o, n := h.Old-1, h.New-1
		for i, line := range h.Lines {
			goesOn := i > 0 && h.Lines[i-1][0] == line[0]
			switch line[0] {
			case '-':
				old = add(old, olds[o], goesOn)
				o++
			case '+':
				now = add(now, nows[n], goesOn)
				n++
			default:
				o, n = o+1, n+1
			}
		}
	}
	return old, now
}

// add appends a range; if goesOn is set, it extends the last range instead.
func add(all [][2]int, word [2]int, goesOn bool) [][2]int {
	if goesOn {
		all[len(all)-1][1] = word[1]
		return all
	}
	return append(all, word)
}

// words returns the words of a text.
func words(s string) (all [][2]int) {
	for i := 0; i < len(s); {
		r, size := utf8.DecodeRuneInString(s[i:])
		end := i + size
		for inWord(r) && end < len(s) {
			next, size := utf8.DecodeRuneInString(s[end:])
			if !inWord(next) {
				break
			}
			end += size
		}
		if !unicode.IsSpace(r) {
			all = append(all, [2]int{i, end})
		}
		i = end
	}
	return all
}

func inWord(r rune) bool { return r == '_' || unicode.IsLetter(r) || unicode.IsDigit(r) }

func oneALine(s string, words [][2]int) []byte {
	lines := make([]byte, 0, len(s)+len(words))
	for _, w := range words {
		lines = append(append(lines, s[w[0]:w[1]]...), '\n')
	}
	return lines
}
