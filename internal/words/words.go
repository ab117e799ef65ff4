// Package words puts numbers into sentences.
package words

import "fmt"

// Count is a number of things, of which the one is named: 1 trial, 2 trials.
func Count(n int, thing string) string {
	if n == 1 {
		return "1 " + thing
	}
	return fmt.Sprintf("%d %ss", n, thing)
}
