package plan

import (
	"fmt"
	"path"
	"slices"

	"github.com/waza-isolate/waza/internal/text"
	"github.com/waza-isolate/waza/mcpconfig"
)

// Need is something that trials need and that waza fetches if this machine lacks it.
type Need struct {
	What    string // description for people
	Image   string // reference of the image that contains it; empty if it is fetched in any case
	Built   bool   // the image is built, not pulled
	Instead string // what to do if it must not be fetched; empty if fetching it beforehand suffices
}

// needs is a list without duplicates.
type needs []Need

func (all *needs) add(n Need) {
	same := func(known Need) bool { return known.Image != "" && known.Image == n.Image || known.What == n.What }
	if !slices.ContainsFunc(*all, same) {
		*all = append(*all, n)
	}
}

// Needs returns what trials need.
func Needs(trials []*Trial) []Need {
	all := needs(NeededImages(trials))
	for _, t := range trials {
		for _, r := range t.Repos {
			if r.IsRemote() {
				all.add(Need{What: "the repository " + r.Source + " of task " + t.Task, Instead: "clone it, and name the directory as its source"})
			}
		}
		if t.Isolated() {
			continue
		}
		for _, s := range t.Servers {
			if command := path.Base(s.Config.Command); !s.Remote && slices.Contains(mcpconfig.Launchers(), command) {
				all.add(Need{What: fmt.Sprintf("what %s starts as server %q", text.Inert(command), s.Name), Instead: "run with --isolate, which fetches it once"})
			}
		}
	}
	return all
}

// NeededImages returns the images that trials need, and versions of packages in them.
func NeededImages(trials []*Trial) []Need {
	var all needs
	for _, t := range trials {
		if !t.Isolated() {
			continue
		}
		for _, c := range t.containers() {
			switch {
			case c.Build == nil:
			case c.Image == "":
				all.add(Need{What: fmt.Sprintf("the versions of %s for %s, which are not in waza.lock", c.Build, c.Who)})
			default:
				all.add(Need{What: fmt.Sprintf("the image for %s, which is not built", c.Build), Image: c.Image, Built: true})
			}
		}
	}
	for _, t := range trials {
		if !t.Isolated() {
			continue
		}
		for _, c := range t.containers() {
			n := Need{What: "image " + c.Image, Image: c.Image}
			built := slices.ContainsFunc(all, func(known Need) bool { return known.Built && known.Image == c.Image })
			switch {
			case c.Image == "" || built:
				continue
			case c.Pull == mcpconfig.PullAlways:
				n = Need{What: n.What + ", whose pull policy is always", Instead: "set that to missing, and the one that the engine has is used"}
			case c.Pull == mcpconfig.PullNever:
				n.Instead = "its pull policy is never, so build it or load it"
			}
			all.add(n)
		}
	}
	return all
}
