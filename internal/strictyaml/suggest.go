package strictyaml

import (
	"fmt"
	"slices"
	"strings"
)

// Suggest says what was meant by word: `did you mean "x"?` where one of known
// is near, else what is known. It is empty when nothing is.
func Suggest(word string, known []string) string {
	if len(known) == 0 {
		return ""
	}
	if near := Nearest(word, known); near != "" {
		return fmt.Sprintf("did you mean %q?", near)
	}
	sorted := slices.Sorted(slices.Values(known))
	return "known here: " + strings.Join(sorted, ", ")
}

// Nearest returns the one of known that is most like word; empty if none is near.
func Nearest(word string, known []string) string {
	if len(word) > 64 {
		return ""
	}
	best, bestDistance := "", 1+max(1, len(word)/3)
	for _, candidate := range known {
		if d := distance(fold(word), fold(candidate)); d < bestDistance {
			best, bestDistance = candidate, d
		}
	}
	return best
}

// isNearMiss reports whether a key is a misspelt one of known: one or two letters of it
// differ, or only what fold drops.
func isNearMiss(key string, known []string) bool {
	near := Nearest(key, known)
	return near != "" && distance(fold(key), fold(near)) <= 2
}

// fold drops what people vary without meaning to: maxWorkers, max-workers.
func fold(s string) string {
	return strings.NewReplacer("_", "", "-", "", " ", "").Replace(strings.ToLower(s))
}

// distance is the number of characters to insert, delete, change or swap with
// their neighbour (optimal string alignment).
func distance(a, b string) int {
	s, t := []rune(a), []rune(b)
	rows := make([][]int, len(s)+1)
	for i := range rows {
		rows[i] = make([]int, len(t)+1)
		rows[i][0] = i
	}
	for j := range t {
		rows[0][j+1] = j + 1
	}
	for i := 1; i <= len(s); i++ {
		for j := 1; j <= len(t); j++ {
			change := 1
			if s[i-1] == t[j-1] {
				change = 0
			}
			rows[i][j] = min(rows[i-1][j]+1, rows[i][j-1]+1, rows[i-1][j-1]+change)
			if i > 1 && j > 1 && s[i-1] == t[j-2] && s[i-2] == t[j-1] {
				rows[i][j] = min(rows[i][j], rows[i-2][j-2]+1)
			}
		}
	}
	return rows[len(s)][len(t)]
}
