package runner

import (
	"context"
	"fmt"

	"github.com/waza-isolate/waza/runner/gitrepo"
	"github.com/waza-isolate/waza/runner/plan"
)

// FetchRepos fetches the repositories of the trials, each once, and notes in their plans
// which commit each is at. What takes a while is said.
func FetchRepos(ctx context.Context, trials []*plan.Trial, say func(string)) error {
	trees := map[gitrepo.Source]*gitrepo.Tree{}
	for _, t := range trials {
		for i := range t.Repos {
			r := &t.Repos[i]
			source := gitrepo.Source{Path: r.Source, Remote: r.IsRemote(), Commit: r.Commit, Depth: r.Depth}
			if trees[source] == nil {
				say("fetching the repository " + r.Source)
				tree, err := gitrepo.Fetch(ctx, source)
				if err != nil {
					return fmt.Errorf("task %s: %w", t.Task, err)
				}
				trees[source] = tree
			}
			r.Tree, r.SHA = trees[source], trees[source].Commit
		}
	}
	return nil
}
