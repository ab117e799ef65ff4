package secret

// automaton finds a set of texts in one pass (Aho and Corasick, 1975). State 0 is the
// initial state. An automaton is immutable.
type automaton struct {
	fold [256]byte // canonical form of each byte
	root [256]int32

	// Indexed by state. All states but 0 are the child of another.
	label   []byte
	child   []int32 // first child; 0 for none
	sibling []int32
	suffix  []int32 // longest proper suffix that is a state
	depth   []int32
	ends    [][]int32
}

// newAutomaton returns an automaton for non-empty texts, in which bytes are equal if [fold] maps
// them to the same.
func newAutomaton(texts []string) *automaton {
	a := &automaton{}
	for i := range a.fold {
		a.fold[i] = fold(byte(i))
	}
	a.state(0, 0)
	for n, text := range texts {
		at := int32(0)
		for i := range len(text) {
			at = a.add(at, a.fold[text[i]])
		}
		a.ends[at] = append(a.ends[at], int32(n))
	}
	a.link()
	return a
}

func (a *automaton) state(label byte, depth int32) int32 {
	a.label, a.depth = append(a.label, label), append(a.depth, depth)
	a.child, a.sibling, a.suffix = append(a.child, 0), append(a.sibling, 0), append(a.suffix, 0)
	a.ends = append(a.ends, nil)
	return int32(len(a.label) - 1)
}

// add returns the child of a state for a byte, creating it if necessary.
func (a *automaton) add(at int32, c byte) int32 {
	next := a.down(at, c)
	if next == 0 {
		next = a.state(c, a.depth[at]+1)
		if at == 0 {
			a.root[c] = next
		}
		a.sibling[next], a.child[at] = a.child[at], next
	}
	return next
}

// down returns the child of a state for a byte, or 0.
func (a *automaton) down(at int32, c byte) int32 {
	if at == 0 {
		return a.root[c]
	}
	next := a.child[at]
	for next != 0 && a.label[next] != c {
		next = a.sibling[next]
	}
	return next
}

// link sets the suffixes in breadth-first order, and adds to the texts that end in each
// state those that end in its suffix.
func (a *automaton) link() {
	queue := []int32{0}
	for len(queue) > 0 {
		at := queue[0]
		queue = queue[1:]
		for next := a.child[at]; next != 0; next = a.sibling[next] {
			if at != 0 {
				a.suffix[next] = a.step(a.suffix[at], a.label[next])
			}
			a.ends[next] = append(a.ends[next], a.ends[a.suffix[next]]...)
			queue = append(queue, next)
		}
	}
}

// step is like stepFrom for a folded byte.
func (a *automaton) step(at int32, c byte) int32 {
	for {
		if next := a.down(at, c); next != 0 || at == 0 {
			return next
		}
		at = a.suffix[at]
	}
}

// stepFrom returns the state after a byte.
func (a *automaton) stepFrom(at int32, c byte) int32 { return a.step(at, a.fold[c]) }

// endsAt returns the texts that end when a state is reached, as indices into the argument of
// [newAutomaton].
func (a *automaton) endsAt(at int32) []int32 { return a.ends[at] }

// depthOf returns the number of preceding bytes that may begin a text.
func (a *automaton) depthOf(at int32) int { return int(a.depth[at]) }
