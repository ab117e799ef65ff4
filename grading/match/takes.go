package match

import "slices"

// Takes reports whether c is of one of e's tools, with arguments that are all as e
// expects them.
func (e Expected) Takes(c Call) bool {
	given := decode(c.Arguments)
	for _, target := range e.Targets {
		if target.Names(c.Server, c.Tool) && target.Args.fit(given, false).Full() {
			return true
		}
	}
	return false
}

// Names reports whether c is of one of e's tools, whatever its arguments.
func (e Expected) Names(c Call) bool {
	return slices.ContainsFunc(e.Targets, func(t Target) bool { return t.Names(c.Server, c.Tool) })
}
