package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/docker/go-units"
	"github.com/urfave/cli/v3"

	"github.com/waza-isolate/waza/agents/adapter"
	"github.com/waza-isolate/waza/containers"
	"github.com/waza-isolate/waza/evidence"
	"github.com/waza-isolate/waza/evidence/secret"
	"github.com/waza-isolate/waza/images"
	"github.com/waza-isolate/waza/internal/strictyaml"
	"github.com/waza-isolate/waza/internal/text"
	"github.com/waza-isolate/waza/runner"
	"github.com/waza-isolate/waza/runner/plan"
	"github.com/waza-isolate/waza/sandbox/guests"
)

// imagesCommand is waza images.
func imagesCommand(s *state) *cli.Command {
	baseFlag := &cli.StringFlag{Name: "base", Usage: "Build on `IMAGE`, like config.isolation.npm_image", Value: images.DefaultNPM}
	return &cli.Command{
		Name:  "images",
		Usage: "Manage the images that waza builds",
		Description: "A run builds the images that it needs. Each agent that comes with waza has an image, and so has " +
			"each npx or uvx package of a server, and each server that is built from source.",
		Action: noSubcommand, HideHelpCommand: true,
		Commands: []*cli.Command{
			{
				Name: "list", Usage: "List built images, and the agents that images can be built for",
				Flags: []cli.Flag{baseFlag, formatFlag(formatDefault, formatJSON)},
				Action: func(ctx context.Context, c *cli.Command) error {
					if err := takes(c, 0, 0, "no arguments"); err != nil {
						return err
					}
					return listImages(ctx, s, c.String("base"), formatOf(c))
				},
			},
			{
				Name: "build", Usage: "Build the images of agents, or build and pull those of evals, before a run", ArgsUsage: "[NAME | EVAL.yaml | DIR]...",
				Description: "NAME is an agent that comes with waza; without an argument, the images of all are built. The versions of an eval's " +
					"packages are written to waza.lock. Prints the name of each image of an eval.",
				Flags: []cli.Flag{baseFlag, allowEnvFlag()},
				Action: func(ctx context.Context, c *cli.Command) error {
					return buildImages(ctx, s, c)
				},
			},
			{
				Name: "save", Usage: "Write the images of an eval to an archive, and their list to waza.images.json", ArgsUsage: "FILE.tar [EVAL.yaml | DIR | SKILL]",
				Flags: []cli.Flag{allowEnvFlag(), offlineFlag()}, Before: reach,
				Action: func(ctx context.Context, c *cli.Command) error {
					if err := takes(c, 1, 2, "a file to write and one eval"); err != nil {
						return err
					}
					return exportImages(ctx, s, c, func(ctx context.Context, b *containers.Backend, i guests.Images) (guests.Images, error) {
						err := writeNamed(c.Args().First(), func(w io.Writer) (err error) {
							i, err = b.Save(ctx, i, w)
							return err
						})
						return i, err
					})
				},
			},
			{
				Name: "push", Usage: "Push the images of an eval to a registry, and write their list to waza.images.json", ArgsUsage: "REGISTRY [EVAL.yaml | DIR | SKILL]",
				Flags: []cli.Flag{allowEnvFlag(), offlineFlag()}, Before: reach,
				Action: func(ctx context.Context, c *cli.Command) error {
					if err := takes(c, 1, 2, "a registry and one eval"); err != nil {
						return err
					}
					return exportImages(ctx, s, c, func(ctx context.Context, b *containers.Backend, i guests.Images) (guests.Images, error) {
						return b.Push(ctx, i, strings.TrimSuffix(c.Args().First(), "/"), s.printStatus)
					})
				},
			},
			{
				Name: "prune", Usage: "Remove images of agents and packages that this version does not use, and old ones of sources",
				Description: "Nothing is removed during a run, which may be one of another version.",
				Action: func(ctx context.Context, c *cli.Command) error {
					if err := takes(c, 0, 0, "no arguments"); err != nil {
						return err
					}
					return pruneImages(ctx, s)
				},
			},
		},
	}
}

// agentImages returns the images of the built-in agents.
func agentImages(base string) ([]images.Image, error) {
	var all []images.Image
	for _, name := range adapter.Names() {
		a, _ := adapter.Builtin(name)
		i, err := a.Build(images.Bases{NPM: base}, adapter.Lock())
		if err != nil {
			return nil, err
		}
		if i != nil {
			all = append(all, *i)
		}
	}
	return all, nil
}

// listedImage is an image in a list.
type listedImage struct {
	Kind    string `json:"kind"`
	Image   string `json:"image"`
	Size    int64  `json:"size_bytes,omitempty"`
	State   string `json:"state"`
	Content string `json:"content"`
}

func listImages(ctx context.Context, s *state, base string, f format) error {
	agents, err := agentImages(base)
	if err != nil {
		return err
	}
	stored, err := containers.ListImages(ctx, agents)
	if err != nil {
		return withExitCode(err)
	}
	all := []listedImage{}
	for _, i := range stored {
		all = append(all, listedImage{i.Kind, i.Ref, i.Size, stateOf(i), contentOf(i)})
	}
	for _, i := range agents {
		if !slices.ContainsFunc(stored, func(s containers.Stored) bool { return s.Ref == i.Tag() }) {
			all = append(all, listedImage{Kind: "agent", Image: i.Tag(), State: "not built", Content: fmt.Sprintf("%s, %s", i.Agent.Name, i)})
		}
	}
	if f == formatJSON {
		return s.printValue(all)
	}
	out := tabwriter.NewWriter(s.stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintln(out, "KIND\tIMAGE\tSIZE\tSTATE\tCONTENT")
	for _, i := range all {
		size := "-"
		if i.Size > 0 {
			size = units.HumanSize(float64(i.Size))
		}
		fmt.Fprintf(out, "%s\t%s\t%s\t%s\t%s\n", i.Kind, i.Image, size, i.State, i.Content)
	}
	return out.Flush()
}

func stateOf(i containers.Stored) string {
	switch {
	case i.Kind == "guest" || i.Kind == "layer":
		return "see gc"
	case i.Current:
		return "current"
	}
	return "old"
}

// contentOf describes an image by its agent and content.
func contentOf(i containers.Stored) string {
	return strings.Join(slices.DeleteFunc([]string{i.Agent, i.Content}, func(s string) bool { return s == "" }), ", ")
}

// buildImages builds the images of the agents and evals that c names, or of all agents.
func buildImages(ctx context.Context, s *state, c *cli.Command) error {
	known := adapter.Names()
	var names, evals []string
	for _, name := range c.Args().Slice() {
		switch {
		case slices.Contains(known, name):
			names = append(names, name)
		case isNamed(name) || isDir(name):
			evals = append(evals, name)
		default:
			return usage("no agent %q comes with waza; %s", name, strictyaml.Suggest(name, known))
		}
	}
	ctx, stop := interruptible(ctx, s.stderr)
	defer stop()
	for _, name := range evals {
		if err := getImages(ctx, s, c, name); err != nil {
			return err
		}
	}
	if len(evals) > 0 && len(names) == 0 {
		return nil
	}
	return buildAgents(ctx, s, names, c.String("base"))
}

// getImages builds and pulls the images of an eval, and prints their names.
func getImages(ctx context.Context, s *state, c *cli.Command, argument string) error {
	job, err := jobForImages(ctx, withEval(s, c, argument, c.FullName()+" %s"), argument)
	if err != nil {
		return err
	}
	backend, err := job.GetImages(ctx)
	if err != nil {
		return withExitCode(err)
	}
	for _, need := range plan.NeededImages(job.Trials) {
		if need.Image != "" {
			fmt.Fprintln(s.stdout, job.Request.Host.Secrets.String(need.Image))
		}
	}
	return withExitCode(backend.Close(context.WithoutCancel(ctx)))
}

// jobForImages returns a job of an eval in order to get its images.
func jobForImages(ctx context.Context, s *state, argument string) (*runner.Job, error) {
	path, err := evalNamed(argument)
	if err != nil {
		return nil, err
	}
	job, err := runner.Load(ctx, runner.Request{Eval: path, Name: "images", Choices: runner.Choices{Isolated: true}, Keyless: true, Host: s.host(normal, formatDefault, false)})
	return job, withExitCode(err)
}

// buildAgents builds the images of built-in agents; without names, of all of them.
func buildAgents(ctx context.Context, s *state, names []string, base string) (err error) {
	agents, err := agentImages(base)
	if err != nil {
		return err
	}
	work := func(what string) (func(string), func()) { return s.stderr.work(s.lookup, what) }
	backend, err := s.openContainers(ctx, runner.Opening{Run: runner.NewID("images")}, &secret.Set{}, work)
	if err != nil {
		return withExitCode(err)
	}
	defer func() { err = errors.Join(err, backend.Close(context.WithoutCancel(ctx))) }()
	for _, i := range agents {
		if len(names) > 0 && !slices.Contains(names, i.Agent.Name) {
			continue
		}
		if err := backend.EnsureImage(ctx, i, func(what string) { fmt.Fprintln(s.stderr, what) }); err != nil {
			return withExitCode(err)
		}
		fmt.Fprintf(s.stdout, "%s is %s\n", i.Agent.Name, i.Tag())
	}
	return nil
}

func pruneImages(ctx context.Context, s *state) error {
	agents, err := agentImages("")
	if err != nil {
		return err
	}
	removed, live, err := containers.PruneImages(ctx, agents)
	for _, i := range removed {
		fmt.Fprintf(s.stdout, "removed %s, %s\n", i.Ref, units.HumanSize(float64(i.Size)))
	}
	switch {
	case err != nil:
		return withExitCode(err)
	case live > 0:
		return withExitCode(fmt.Errorf("nothing was removed: %s may need these images; wait until no run is live", text.Count(live, "live run")))
	case len(removed) == 0:
		fmt.Fprintln(s.stdout, "nothing to remove")
	}
	return nil
}

// exportImages builds or pulls the images of an eval, calls export to bring them to a place from which a
// cluster can pull them, and writes a list of them next to the eval.
func exportImages(ctx context.Context, s *state, c *cli.Command, export func(context.Context, *containers.Backend, guests.Images) (guests.Images, error)) (err error) {
	s = withEval(s, c, c.Args().Get(1), c.FullName()+" "+text.ShellWord(c.Args().First())+" %s")
	ctx, stop := interruptible(ctx, s.stderr)
	defer stop()
	job, err := jobForImages(ctx, s, c.Args().Get(1))
	if err != nil {
		return err
	}
	at, err := job.Eval.Place(cmp.Or(job.Eval.Config.Isolation.Kubernetes.Images, plan.DefaultImagesFile))
	if err != nil {
		return usage("kubernetes.images: %w", err)
	}
	opened, err := job.GetImages(ctx)
	if err != nil {
		return withExitCode(err)
	}
	defer func() { err = errors.Join(err, opened.Close(context.WithoutCancel(ctx))) }()
	backend := opened.(*containers.Backend)
	list, err := backend.Export(ctx, plan.Specs(job.Trials))
	if err == nil {
		list, err = export(ctx, backend, list)
	}
	if err != nil {
		return withExitCode(err)
	}
	list.Waza = s.version
	if err := evidence.WriteJSON(at, list); err != nil {
		return withExitCode(err)
	}
	fmt.Fprintf(s.stdout, "%s lists %s\n", at, text.Count(len(list.Images), "image"))
	return nil
}
