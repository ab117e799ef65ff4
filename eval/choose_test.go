package eval_test

import (
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/txtar"

	"github.com/waza-isolate/waza/eval"
	"github.com/waza-isolate/waza/mcpconfig"
)

// Whether trials run in containers is chosen by the options, or else by the eval, or else by the
// project, or else by what needs a container, wherever it is.
func TestChoose(t *testing.T) {
	const (
		yes, no  = "isolate: true, ", "isolate: false, "
		onlyRuns = `command: serve`
		imageToo = `command: serve, image: example/s`
		image    = `image: example/s`
		built    = `build: .`
		files    = `command: serve, image: example/s, files: {/x: t.yaml}`
		canary   = `canaries: {c: {plant: [{server: s, file: /x}]}}, `
	)
	flags := func(isolated bool) eval.Options { return eval.Options{Local: !isolated} }
	written := eval.Options{AsWritten: true}
	client, err := mcpconfig.ReadClient("mcp.json", []byte(`{"mcpServers": {"s": {"image": "example/s"}}}`))
	if err != nil {
		t.Fatal(err)
	}
	for name, test := range map[string]struct {
		project, config, server, task string
		opts                          eval.Options
		local                         bool
		contained, fails              string
	}{
		"nothing":                {server: onlyRuns, opts: written, local: true},
		"a command and an image": {server: imageToo, opts: written, local: true},
		"a URL":                  {server: "url: https://example.com/mcp", opts: written, local: true},
		"an image":               {server: image, opts: written, contained: `server "s" has only an image`},
		"a build":                {server: built, opts: written, contained: `server "s" has only a build`},
		"files":                  {server: files, opts: written, contained: `server "s": files is about its container`},
		"memory":                 {server: imageToo + ", memory: 64m", opts: written, contained: `server "s": memory is about its container`},
		"a canary":               {config: canary, server: imageToo, opts: written, contained: `canary "c": a file of server "s" is in its container`},
		"a task's server":        {server: onlyRuns, task: "mcp_servers: {more: {image: example/m}}, ", opts: written, contained: `server "more" has only an image`, fails: `server "s" has a command and no image`},
		"a server replaced":      {server: image, opts: eval.Options{AsWritten: true, Overlay: client}, contained: `server "s" has only an image`},
		"a grader":               {server: imageToo, task: "graders: [{type: state, name: g, config: {server: s, files: [{path: /x}]}}], ", opts: written, contained: `grader "g": files of server "s" are in its container`},
		"the eval":               {config: yes, server: imageToo, opts: written},
		"the eval, false":        {config: no, server: image, opts: written, fails: `server "s" has only an image: it needs --isolate, or a command`},
		"the project":            {project: "defaults: {isolate: true}", server: imageToo, opts: written},
		"the eval first":         {project: "defaults: {isolate: true}", config: no, server: imageToo, opts: written, local: true},
		"the project, false":     {project: "defaults: {isolate: false}", server: image, opts: written, fails: "it needs --isolate"},
		"the project, misplaced": {project: "isolate: true", server: imageToo, opts: written, fails: "write it under defaults"},
		"the options first":      {config: no, server: image, opts: flags(true)},
		"the options, false":     {project: "defaults: {isolate: true}", config: yes, server: imageToo, opts: flags(false), local: true},
		"not a truth value":      {config: "isolate: maybe, ", server: image, opts: written, fails: "isolate"},
	} {
		t.Run(name, func(t *testing.T) {
			unpack(t, txtar.Parse([]byte("-- .waza.yaml --\npaths: {skills: skills}\n"+test.project+"\n-- Dockerfile --\nFROM scratch\n-- t.yaml --\n{id: t, "+test.task+"inputs: {prompt: p}}\n"+
				"-- eval.yaml --\nname: n\nconfig: {executor: mock, "+test.config+"mcp_servers: {s: {"+test.server+"}}}\ntasks: [t.yaml]\n")))
			e, _, err := eval.Load("eval.yaml", test.opts)
			switch {
			case test.fails != "" && (err == nil || !strings.Contains(err.Error(), test.fails)):
				t.Errorf("it fails with %v, not %q", err, test.fails)
			case test.fails == "" && err != nil:
				t.Error(err)
			case test.fails == "" && e.Local != test.local:
				t.Errorf("local is %v", e.Local)
			case e != nil && e.Contained != test.contained:
				t.Errorf("contained: %q", e.Contained)
			}
		})
	}
}
