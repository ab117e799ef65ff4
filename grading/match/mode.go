package match

import (
	"fmt"
	"slices"
	"strings"
)

// Mode says which calls may be beside the expected ones, and whether their order
// counts.
type Mode string

// The modes. A call that failed fills no slot and is never too much; one that its client
// gave up fills none either.
const (
	Effects   Mode = "effects"   // any order; beside them calls that are known to change nothing
	Superset  Mode = "superset"  // any order; any beside them
	Unordered Mode = "unordered" // any order; none beside them
	InOrder   Mode = "in_order"  // in order; any beside them
	Exact     Mode = "exact"     // in order; none beside them
	Subset    Mode = "subset"    // any order; each may be missing; none beside them
)

// ParseMode reads the name of a mode; empty is [Effects].
func ParseMode(name string) (Mode, error) {
	modes := []string{string(Effects), string(Superset), string(Unordered), string(InOrder), string(Exact), string(Subset)}
	switch {
	case name == "":
		return Effects, nil
	case slices.Contains(modes, name):
		return Mode(name), nil
	}
	return "", fmt.Errorf("%q is none of %s", name, strings.Join(modes, ", "))
}

func (m Mode) ordered() bool { return m == InOrder || m == Exact }

// What a call is that stands for nothing expected, as the weight of sparing it: one
// too much outweighs all optional slots.
const (
	fine    int64 = 0
	tooMuch int64 = 1 << 40
)

// beside is what a call that succeeded, or was given up, is where it stands for nothing expected.
func (m Mode) beside(c Call) int64 {
	switch {
	case c.Excused || m == Superset || m == InOrder || m == Effects && c.ReadOnly:
		return fine
	}
	return tooMuch
}
