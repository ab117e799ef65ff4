package redact

import "bytes"

// tree holds forms by their texts: what is alike in several is there once.
type tree struct {
	only *form // the one form below, where there is no more than one
	ends []*form
	keys []byte // of next, at the same places
	next []*tree
}

// insert adds a form whose text leads to t by its first depth bytes.
func (t *tree) insert(f *form, depth int) {
	if t.only == nil && t.ends == nil && t.next == nil {
		t.only = f
		return
	}
	if before := t.only; before != nil {
		t.only = nil
		t.place(before, depth)
	}
	t.place(f, depth)
}

func (t *tree) place(f *form, depth int) {
	if depth == len(f.text) {
		t.ends = append(t.ends, f)
		return
	}
	at := bytes.IndexByte(t.keys, f.text[depth])
	if at < 0 {
		at = len(t.keys)
		t.keys, t.next = append(t.keys, f.text[depth]), append(t.next, &tree{})
	}
	t.next[at].insert(f, depth+1)
}

// walk finds the longest form that b begins with.
type walk struct {
	b       []byte
	longest *form
	length  int
	open    bool // b ends where a longer one might go on
}

// down looks for the forms of a tree, whose texts begin at b[at:].
func (w *walk) down(t *tree, at int, wraps bool) {
	for depth := 0; ; depth++ {
		for _, f := range t.ends {
			w.ended(f, at)
		}
		if t.only != nil {
			w.along(t.only, depth, at)
			return
		}
		if wraps && at > 0 {
			at += lineBreak(w.b[at:])
		}
		if at == len(w.b) {
			w.open = w.open || len(t.next) > 0
			return
		}
		key := bytes.IndexByte(t.keys, w.b[at])
		if key < 0 {
			return
		}
		t, at = t.next[key], at+1
	}
}

// along looks for the text of f from its byte depth on.
func (w *walk) along(f *form, depth, at int) {
	for _, c := range f.text[depth:] {
		if f.wraps && at > 0 {
			at += lineBreak(w.b[at:])
		}
		if at == len(w.b) {
			w.open = true
			return
		}
		if w.b[at] != c {
			return
		}
		at++
	}
	w.ended(f, at)
}

// ended takes in a form whose text ends at b[:at]. The digit that it may share with
// what is behind belongs to it.
func (w *walk) ended(f *form, at int) {
	if f.left.There() && !f.left.Fits(w.b[0]) {
		return
	}
	if f.right.There() {
		behind := at + lineBreak(w.b[at:])
		switch {
		case behind == len(w.b):
			w.open = true
		case f.right.Fits(w.b[behind]):
			at = behind + 1
		case f.right.Like(w.b[behind]):
			return
		}
	}
	if at > w.length {
		w.longest, w.length = f, at
	}
}

// lineBreak is the length of the line break that b begins with, whole or not; 0 where
// there is none.
func lineBreak(b []byte) int {
	switch {
	case len(b) == 0 || b[0] != '\n' && b[0] != '\r':
		return 0
	case b[0] == '\n' || len(b) == 1:
		return 1
	case b[1] == '\n':
		return 2
	}
	return 0
}
