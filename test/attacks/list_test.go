package attacks

import (
	"maps"
	"regexp"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/waza-isolate/waza/sandbox/probe"
)

// The list holds together: names, promises and defences.
func TestList(t *testing.T) {
	kebab := regexp.MustCompile(`^[a-z0-9]+(-[a-z0-9]+)*$`)
	all := All()
	seen := map[string]bool{}
	defences := map[string]probe.Defence{}
	for _, a := range all {
		if !kebab.MatchString(a.Name) || seen[a.Name] {
			t.Errorf("%q is no name, or is taken", a.Name)
		}
		seen[a.Name] = true
		if a.Goal == "" || a.Won == nil || !slices.Contains(probe.Promises(), a.Promise) {
			t.Errorf("%s: something is missing: %+v", a.Name, a)
		}
		if a.In != "" && !slices.ContainsFunc(all, func(b Attack) bool { return b.Name == a.In && b.In == "" && a.Alone == nil }) {
			t.Errorf("%s: there is no trial %q for it", a.Name, a.In)
		}
		d := a.Without
		if d.Name == "" || (d.Kept == "") != (len(d.Constants) > 0 && d.Build != "") {
			t.Errorf("%s: the defence must be one that is taken out, or say why not: %+v", a.Name, d)
		}
		if known, ok := defences[d.Name]; ok && !slices.Equal(known.Constants, d.Constants) {
			t.Errorf("two defences are called %q", d.Name)
		}
		defences[d.Name] = d
	}
	for _, p := range probe.Promises() {
		if !slices.ContainsFunc(all, func(a Attack) bool { return a.Promise == p }) {
			t.Errorf("nothing attacks the promise %q", p)
		}
	}
	if len(all) < 80 {
		t.Errorf("%d attacks", len(all))
	}
}

// Each constant of package defence is taken out with a defence, and there are no others
// to take out.
func TestConstants(t *testing.T) {
	out := map[string]bool{theCertificate: true}
	for _, d := range removable() {
		for _, name := range d.Constants {
			out[name] = true
		}
	}
	if diff := cmp.Diff(constants(t), slices.Sorted(maps.Keys(out))); diff != "" {
		t.Errorf("constants of package defence, and those that are taken out (-want +got):\n%s", diff)
	}
}
