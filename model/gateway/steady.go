package gateway

import "strings"

// steadyText is text with words in place of what is another each time: UUIDs, dates as
// 2006-01-02 with or without a time, and ports of this machine.
func steadyText(text string) string {
	var out strings.Builder
	done := 0
	for i := 0; i < len(text); {
		next := strings.IndexAny(text[i:], "-:")
		if next < 0 {
			break
		}
		i += next
		start, end, word := varyingAt(text, i)
		if end == 0 || start < done {
			i++
			continue
		}
		out.WriteString(text[done:start])
		out.WriteString(word)
		done, i = end, end
	}
	if done == 0 {
		return text
	}
	out.WriteString(text[done:])
	return out.String()
}

// varyingAt finds what varies around the hyphen or colon at i; end is 0 where that is
// nothing.
func varyingAt(text string, i int) (start, end int, word string) {
	if text[i] == ':' {
		return portAt(text, i)
	}
	if start = i - 8; fits(text, start, "xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx") {
		return start, start + 36, "UUID"
	}
	if start = i - 4; fits(text, start, "0000-00-00") && !fits(text, start-1, "0") {
		return start, timeBehind(text, start+10), "DATE"
	}
	return 0, 0, ""
}

// timeBehind is where a date ends that goes on at i: behind its time, where it has one.
func timeBehind(text string, i int) int {
	if !fits(text, i, "T00:00") && !fits(text, i, " 00:00") {
		return i
	}
	i += 6
	if fits(text, i, ":00") {
		i += 3
		if fits(text, i, ".0") {
			for i++; fits(text, i, "0"); i++ {
			}
		}
	}
	switch {
	case fits(text, i, "Z"):
		i++
	case fits(text, i, "+00:00"), fits(text, i, "-00:00"):
		i += 6
	}
	return i
}

// portAt finds the port behind the colon at i of an address of this machine.
func portAt(text string, i int) (start, end int, word string) {
	if !strings.HasSuffix(text[:i], "127.0.0.1") && !strings.HasSuffix(text[:i], "localhost") {
		return 0, 0, ""
	}
	for end = i + 1; fits(text, end, "0"); end++ {
	}
	if end == i+1 {
		return 0, 0, ""
	}
	return i + 1, end, "PORT"
}

// fits says whether text has at i what a pattern says: a digit for 0, a hexadecimal one
// for x, and any other byte as it is.
func fits(text string, i int, pattern string) bool {
	if i < 0 || i+len(pattern) > len(text) {
		return false
	}
	for n := range len(pattern) {
		c := text[i+n]
		digit := c >= '0' && c <= '9'
		switch pattern[n] {
		case '0':
			if !digit {
				return false
			}
		case 'x':
			if lower := c | 0x20; !digit && (lower < 'a' || lower > 'f') {
				return false
			}
		case c:
		default:
			return false
		}
	}
	return true
}
