package match

// Takes reports whether c is of one of e's tools, with arguments that are all as e
// expects them.
func (e Expected) Takes(c Call) bool {
	given := decode(c.Arguments)
	for _, target := range e.Targets {
		if target.names(c.Server, c.Tool) && target.Args.fit(given, false).Full() {
			return true
		}
	}
	return false
}
