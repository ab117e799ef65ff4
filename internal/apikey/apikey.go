// Package apikey rejects texts that cannot be keys of model providers.
package apikey

import (
	"fmt"
	"strings"
)

// shortest is the shortest key that can be kept out of what is written: shorter ones
// stand in other words by chance.
const shortest = 8

// Check says what is wrong with the key that the environment variable holds. What it is
// the key of goes on the sentence that says to set it.
func Check(variable, key, of string) error {
	printable := strings.IndexFunc(key, func(r rune) bool { return r <= ' ' || r > '~' }) < 0
	switch {
	case key == "":
		return fmt.Errorf("the environment variable %s is not set; set it to the key of %s", variable, of)
	case len(key) < shortest:
		return fmt.Errorf("the environment variable %s holds no key: it is shorter than %d characters", variable, shortest)
	case !printable:
		return fmt.Errorf("the environment variable %s holds no key: there is a blank, a line break or another character in it that no key has", variable)
	}
	return nil
}
