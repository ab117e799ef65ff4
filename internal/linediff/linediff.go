// Package linediff finds which lines of one text became which of another. It bounds the
// work that texts can make: beyond it, all lines are taken out and others put in.
package linediff

import "slices"

// Op says what became of a line.
type Op byte

const (
	Same    Op = ' '
	Removed Op = '-'
	Added   Op = '+'
)

// Line is a line of either text.
type Line struct {
	Op   Op
	Text string // without the line break
}

// Hunk is lines that changed with some around them that did not. Old and New are the
// numbers, from 1, of its first line in either text.
type Hunk struct {
	Old, New int
	Lines    []Line
}

// maxSteps bounds the edits that are looked for: work and memory grow with their square.
const maxSteps = 1000

// Lines is how a becomes b, with as few lines added and removed as can be, or else all.
func Lines(a, b []string) []Line {
	head := common(len(a), len(b), func(i int) bool { return a[i] == b[i] })
	restA, restB := a[head:], b[head:]
	tail := common(len(restA), len(restB), func(i int) bool { return restA[len(restA)-1-i] == restB[len(restB)-1-i] })
	restA, restB = restA[:len(restA)-tail], restB[:len(restB)-tail]

	lines := all(Same, a[:head])
	lines = append(lines, middle(restA, restB)...)
	return append(lines, all(Same, a[len(a)-tail:])...)
}

func common(n, m int, same func(i int) bool) int {
	i := 0
	for i < min(n, m) && same(i) {
		i++
	}
	return i
}

func all(op Op, texts []string) (lines []Line) {
	for _, text := range texts {
		lines = append(lines, Line{op, text})
	}
	return lines
}

// middle is Myers' greedy search, "An O(ND) Difference Algorithm and Its Variations".
func middle(a, b []string) []Line {
	trace, found := search(a, b)
	if !found {
		return append(all(Removed, a), all(Added, b)...)
	}
	var lines []Line
	x, y := len(a), len(b)
	for d := len(trace) - 1; d > 0; d-- {
		reached, k := trace[d-1], x-y
		down := k == -d || k != d && reached.at(k-1) < reached.at(k+1)
		from := k - 1
		if down {
			from = k + 1
		}
		fromX := reached.at(from)
		fromY := fromX - from
		for x > fromX && y > fromY && (x > fromX+1 || down) && (y > fromY+1 || !down) {
			x, y = x-1, y-1
			lines = append(lines, Line{Same, a[x]})
		}
		if down {
			y--
			lines = append(lines, Line{Added, b[y]})
		} else {
			x--
			lines = append(lines, Line{Removed, a[x]})
		}
	}
	for x > 0 {
		x--
		lines = append(lines, Line{Same, a[x]})
	}
	slices.Reverse(lines)
	return lines
}

// frontier is how far into a text the search came, on diagonals -d to d.
type frontier []int

func (f frontier) at(k int) int {
	if i := k + len(f)/2; i >= 0 && i < len(f) {
		return f[i]
	}
	return -1
}

func search(a, b []string) (trace []frontier, found bool) {
	for d := 0; d <= min(len(a)+len(b), maxSteps); d++ {
		now := make(frontier, 2*d+1)
		for k := -d; k <= d; k += 2 {
			x := 0
			if d > 0 {
				last := trace[d-1]
				x = last.at(k-1) + 1
				if k == -d || k != d && last.at(k-1) < last.at(k+1) {
					x = last.at(k + 1)
				}
			}
			for x < len(a) && x-k < len(b) && a[x] == b[x-k] {
				x++
			}
			now[k+d] = x
			if x >= len(a) && x-k >= len(b) {
				return append(trace, now), true
			}
		}
		trace = append(trace, now)
	}
	return nil, false
}

// Hunks cuts lines into those that changed with up to context lines around each.
func Hunks(lines []Line, context int) []Hunk {
	var hunks []Hunk
	oldLine, newLine, quiet := 1, 1, 0 // quiet lines since the last change
	open := false
	for i, line := range lines {
		if line.Op == Same {
			quiet++
		} else {
			if !open {
				from := max(i-min(quiet, context), 0)
				hunks = append(hunks, Hunk{oldLine - (i - from), newLine - (i - from), slices.Clone(lines[from:i])})
			}
			open, quiet = true, 0
		}
		if open {
			open = quiet <= 2*context
			last := &hunks[len(hunks)-1]
			last.Lines = append(last.Lines, line)
			if !open {
				last.Lines = last.Lines[:len(last.Lines)-quiet+context]
			}
		}
		if line.Op != Added {
			oldLine++
		}
		if line.Op != Removed {
			newLine++
		}
	}
	if open && quiet > context {
		last := &hunks[len(hunks)-1]
		last.Lines = last.Lines[:len(last.Lines)-quiet+context]
	}
	return hunks
}
