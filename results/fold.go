package results

import (
	"slices"

	"github.com/waza-isolate/waza/evidence"
)

// fold adds entries to a list: those that stand there to what stands, others behind
// it, up to maxConduct. It returns how much is left, as each entry counts; one where
// counts is nil.
func fold[T any](list *[]T, entries []T, same func(a, b T) bool, merge func(*T, T), counts func(T) int) (more int) {
	for _, e := range entries {
		i := slices.IndexFunc(*list, func(other T) bool { return same(other, e) })
		switch {
		case i >= 0:
			merge(&(*list)[i], e)
		case len(*list) < maxConduct:
			*list = append(*list, e)
		case counts == nil:
			more++
		default:
			more += counts(e)
		}
	}
	return more
}

func sameFile(a, b evidence.FileChange) bool {
	return a.Path == b.Path && a.What == b.What && a.Kind == b.Kind
}

func newerFile(to *evidence.FileChange, f evidence.FileChange) { to.Size = max(to.Size, f.Size) }

func sameProgram(a, b evidence.Program) bool { return a.Path == b.Path }

func addProgram(to *evidence.Program, p evidence.Program) { to.Count += p.Count }

func sameConnection(a, b evidence.Connection) bool {
	return a.Network == b.Network && a.Address == b.Address
}

func addConnection(to *evidence.Connection, n evidence.Connection) { to.Count += n.Count }

func sameName(a, b AskedName) bool { return a.Name == b.Name && a.Answered == b.Answered }

func addName(to *AskedName, n AskedName) { to.Count += n.Count }

func sameHost(a, b EgressHost) bool { return a.Name == b.Name && a.Port == b.Port }

func addHost(to *EgressHost, h EgressHost) {
	to.Connections += h.Connections
	to.Refused += h.Refused
	to.Out += h.Out
	to.In += h.In
}

func sameSecret(a, b evidence.Echo) bool { return a.Secret == b.Secret }

func addSecret(to *evidence.Echo, e evidence.Echo) {
	to.Frames += e.Frames
	to.Stderr += e.Stderr
}

// highest is the greater of what is known.
func highest[T int64 | float64](a, b *T) *T {
	if a == nil || b != nil && *b > *a {
		return b
	}
	return a
}
