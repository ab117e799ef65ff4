package containers

import (
	"cmp"
	"context"
	"fmt"

	"github.com/waza-isolate/waza/mcpconfig"
	"github.com/waza-isolate/waza/runner/plan"
	"github.com/waza-isolate/waza/sandbox"
)

// Prepare has every image that trials need on the engine, before any trial starts.
// What is being built or pulled goes to say.
func (b *Backend) Prepare(ctx context.Context, trials []*plan.Trial, say func(string)) error {
	if err := b.engine.checkPlatforms(trials); err != nil {
		return err
	}
	if err := b.buildAll(ctx, trials, say); err != nil {
		return err
	}
	refs := map[string]bool{}
	for _, t := range trials {
		for _, ref := range imagesOf(t) {
			refs[ref] = true
		}
	}
	for _, ref := range sortedKeys(refs) {
		if _, err := b.image(ctx, ref, pullPolicy(ref, trials), say); err != nil {
			return err
		}
	}
	return nil
}

// buildAll builds the images of packages.
func (b *Backend) buildAll(ctx context.Context, trials []*plan.Trial, say func(string)) error {
	built := map[string]bool{}
	for _, t := range trials {
		if agent := t.Agent; agent.Build != nil && !built[agent.Image] {
			if err := b.EnsureImage(ctx, *agent.Build, say); err != nil {
				return fmt.Errorf("agent: %w", err)
			}
			built[agent.Image] = true
		}
		for _, server := range t.Servers {
			if server.Build == nil || built[server.Image] {
				continue
			}
			if err := b.EnsureImage(ctx, *server.Build, say); err != nil {
				return fmt.Errorf("server %q: %w", server.Name, err)
			}
			built[server.Image] = true
		}
	}
	return nil
}

// imagesOf is the images of a trial's containers, the guest's own as "".
func imagesOf(t *plan.Trial) []string {
	var refs []string
	if !t.ServersOnly {
		refs = append(refs, t.Agent.Image)
	}
	for _, server := range t.Servers {
		if !server.Remote {
			refs = append(refs, server.Image)
		}
		for _, service := range server.Services {
			refs = append(refs, service.Image)
		}
	}
	for _, g := range t.GraderContainers {
		refs = append(refs, g.Image)
	}
	return refs
}

// pullPolicy is when an image is pulled: always where one container wants that, and
// never where all do.
func pullPolicy(ref string, trials []*plan.Trial) string {
	wanted := map[string]bool{}
	for _, t := range trials {
		if t.Agent.Image == ref && t.Agent.Build != nil {
			return mcpconfig.PullNever // its tag is ours, and no registry's
		}
		containers := []sandbox.Container{t.Agent.Container}
		for _, server := range t.Servers {
			if server.Image == ref && server.Build != nil {
				return mcpconfig.PullNever // its tag is ours, and no registry's
			}
			containers = append(containers, server.Container)
			for _, service := range server.Services {
				containers = append(containers, service.Container)
			}
		}
		for _, g := range t.GraderContainers {
			containers = append(containers, g.Container)
		}
		for _, ctr := range containers {
			if ctr.Image == ref {
				wanted[cmp.Or(ctr.Pull, mcpconfig.PullMissing)] = true
			}
		}
	}
	for _, policy := range []string{mcpconfig.PullAlways, mcpconfig.PullMissing} {
		if wanted[policy] {
			return policy
		}
	}
	return mcpconfig.PullNever
}

func (b *Backend) image(ctx context.Context, ref, policy string, say func(string)) (imageInfo, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if info, ok := b.images[ref]; ok {
		return info, nil
	}
	info, err := b.engine.ensureImage(ctx, ref, policy, say)
	if err != nil {
		return info, err
	}
	if info.layer, err = b.guestLayer(ctx, ref, info); err != nil {
		return info, err
	}
	b.images[ref] = info
	return info, nil
}
