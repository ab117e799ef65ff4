package capture

import "github.com/waza-isolate/waza/internal/jsonvalue"

// sameCall is what makes calls indistinguishable to a transcript.
type sameCall struct{ server, tool, arguments string }

// place finds where the transcript tells of each call. Calls alike are told in their
// order, and only if exactly as many claims say them and none of these may be about
// another call: otherwise which claim is whose would be a guess, and Told stays 0.
func place(calls []Use, servers []string, told []Use) {
	groups := map[sameCall][]int{} // indices of calls
	for i, use := range calls {
		if arguments, ok := jsonvalue.Canonical(use.Arguments); ok {
			key := sameCall{use.Call.Server, use.Tool, arguments}
			groups[key] = append(groups[key], i)
		}
	}
	claims := map[sameCall][]int{} // places in the transcript
	unclear := map[sameCall]bool{}
	for _, claim := range told {
		about := candidates(groups, servers, claim)
		for _, key := range about {
			claims[key] = append(claims[key], claim.Told)
			unclear[key] = unclear[key] || len(about) > 1
		}
	}
	for key, places := range claims {
		if unclear[key] || len(places) != len(groups[key]) {
			continue
		}
		for n, i := range groups[key] {
			calls[i].Told = places[n]
		}
	}
}

// candidates lists the groups of calls that a claim may be about.
func candidates(groups map[sameCall][]int, servers []string, claim Use) []sameCall {
	arguments := "{}"
	if len(claim.Arguments) > 0 {
		form, ok := jsonvalue.Canonical(claim.Arguments)
		if !ok {
			return nil
		}
		arguments = form
	}
	var about []sameCall
	seen := map[sameCall]bool{}
	for _, server := range servers {
		for _, tool := range append(toolsOf(server, claim.Tool), claim.Tool) {
			key := sameCall{server, tool, arguments}
			if groups[key] != nil && !seen[key] {
				seen[key] = true
				about = append(about, key)
			}
		}
	}
	return about
}
