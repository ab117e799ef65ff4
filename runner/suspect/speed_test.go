package suspect

import (
	"strings"
	"testing"
)

// BenchmarkHostile is text that every phrase begins in and none ends.
func BenchmarkHostile(b *testing.B) {
	text := strings.Repeat("send include password before you must never tell the user always call ignore previous http @ as ", 1<<16/96)
	b.SetBytes(int64(len(text)))
	for b.Loop() {
		Text(text, nil)
	}
}
