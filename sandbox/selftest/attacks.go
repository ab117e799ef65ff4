package selftest

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/waza-isolate/waza/evidence"
	"github.com/waza-isolate/waza/internal/strictyaml"
	"github.com/waza-isolate/waza/sandbox/probe"
)

// onCluster is the engine whose containers are pods, in certificates.
const onCluster = "kubernetes"

// CheckNames returns an error if there is no attack of one of the names.
func CheckNames(names []string) error {
	var known []string
	for _, a := range probe.Attacks() {
		known = append(known, a.Name)
	}
	for _, name := range names {
		if !slices.Contains(known, name) {
			return fmt.Errorf("there is no attack %q; %s", name, strictyaml.Suggest(name, known))
		}
	}
	return nil
}

// markAllowed marks attacks that got out and whose names are allowed, and returns a sentence about each
// other one that got out.
func markAllowed(c *evidence.Certificate, names []string) []string {
	var holes []string
	for i := range c.Attacks {
		a := &c.Attacks[i]
		if a.Result != evidence.AttackGotOut {
			continue
		}
		if a.Allowed = slices.Contains(names, a.Name); !a.Allowed {
			holes = append(holes, Explain(c, *a))
		}
	}
	return holes
}

// Explain describes an attack that got out, its risk for a run, and how to fix it.
func Explain(c *evidence.Certificate, a evidence.Attack) string {
	for _, known := range probe.Attacks() {
		if known.Name == a.Name {
			mend := known.Wall.Mend
			if c.Engine["engine"] == onCluster {
				mend = cmp.Or(known.Wall.Pods, mend)
			}
			return fmt.Sprintf("%s got out (it tried to %s: %s): %s. To mend it, %s.", a.Name, a.Goal, a.Detail, known.Wall.Means, mend)
		}
	}
	return a.Name + " got out: " + a.Detail
}
