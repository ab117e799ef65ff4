package canary

// needle is a text to look for, and which entry it is found as.
type needle struct {
	text  string
	entry int
}

// automaton finds all needles in one pass over bytes that come in pieces (Aho and
// Corasick, 1975), as a table of states by classes of bytes.
type automaton struct {
	class   [256]uint16
	classes int
	next    []int32 // by state and class
	entries [][]int // found in a state
}

func newAutomaton(needles []needle, fold bool) *automaton {
	a := &automaton{classes: 1}
	for _, n := range needles {
		for i := range len(n.text) {
			a.know(n.text[i], fold)
		}
	}
	a.state()
	for _, n := range needles {
		a.add(n)
	}
	a.link()
	return a
}

// know gives a byte a class of its own, which with fold it shares with the letter of the
// other case. Class 0 is that of all bytes that no needle has.
func (a *automaton) know(b byte, fold bool) {
	if a.class[b] != 0 {
		return
	}
	a.class[b] = uint16(a.classes)
	if isLetter := b|0x20 >= 'a' && b|0x20 <= 'z'; fold && isLetter {
		a.class[b^0x20] = a.class[b]
	}
	a.classes++
}

func (a *automaton) state() int32 {
	a.next = append(a.next, make([]int32, a.classes)...)
	a.entries = append(a.entries, nil)
	return int32(len(a.entries) - 1)
}

func (a *automaton) at(state int32, class uint16) int { return int(state)*a.classes + int(class) }

func (a *automaton) add(n needle) {
	at := int32(0)
	for i := range len(n.text) {
		here := a.at(at, a.class[n.text[i]])
		if a.next[here] == 0 {
			a.next[here] = a.state()
		}
		at = a.next[here]
	}
	a.entries[at] = append(a.entries[at], n.entry)
}

// link leads on, from where no needle does, to what of the text read so far another
// needle begins with.
func (a *automaton) link() {
	fallback := make([]int32, len(a.entries))
	var queue []int32
	for _, state := range a.next[:a.classes] {
		if state != 0 {
			queue = append(queue, state)
		}
	}
	for len(queue) > 0 {
		state := queue[0]
		queue = queue[1:]
		back := fallback[state]
		a.entries[state] = append(a.entries[state], a.entries[back]...)
		for class := range a.classes {
			here, there := a.at(state, uint16(class)), a.next[a.at(back, uint16(class))]
			if a.next[here] == 0 {
				a.next[here] = there
				continue
			}
			fallback[a.next[here]] = there
			queue = append(queue, a.next[here])
		}
	}
}

// scan reads b from a state, tells what it finds, and returns the state behind.
func (a *automaton) scan(state int32, b []byte, found func(entry int)) int32 {
	for _, c := range b {
		state = a.next[a.at(state, a.class[c])]
		for _, entry := range a.entries[state] {
			found(entry)
		}
	}
	return state
}
