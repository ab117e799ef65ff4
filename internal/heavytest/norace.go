//go:build !race

package heavytest

const detector = false
