package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"

	"github.com/urfave/cli/v3"

	"github.com/waza-isolate/waza/agents/script"
	"github.com/waza-isolate/waza/containers"
	"github.com/waza-isolate/waza/evidence"
	"github.com/waza-isolate/waza/evidence/secret"
	"github.com/waza-isolate/waza/images"
	"github.com/waza-isolate/waza/internal/defence"
	"github.com/waza-isolate/waza/internal/files"
	"github.com/waza-isolate/waza/internal/strictyaml"
	"github.com/waza-isolate/waza/internal/text"
	"github.com/waza-isolate/waza/mcpconfig"
	"github.com/waza-isolate/waza/model/judge"
	"github.com/waza-isolate/waza/model/stub"
	"github.com/waza-isolate/waza/runner"
	"github.com/waza-isolate/waza/runner/plan"
	"github.com/waza-isolate/waza/runner/trial"
	"github.com/waza-isolate/waza/sandbox"
	"github.com/waza-isolate/waza/sandbox/local"
	"github.com/waza-isolate/waza/sandbox/selftest"
)

// host returns what a run needs from this process. l sets how much it prints, and f the format of the final
// output. With keep, the trial's sandbox is kept until an interrupt.
func (s *state) host(l verbosity, f format, keep bool) runner.Host {
	var shown *progress // nil until trials run
	work := func(what string) (func(string), func()) {
		if l == quiet || shown != nil {
			return func(string) {}, func() {}
		}
		return s.stderr.work(s.lookup, what)
	}
	secrets := &secret.Set{}
	h := runner.Host{
		Secrets: secrets, Connect: newJudges(s, secrets).connect, Waza: s.version, Build: s.buildID, Lookup: s.lookup, Certificates: certificateCache(), Output: outputFiles(s.stdout, s.stderr),
		CheckScript: script.Check, CheckModelScript: checkModelScript,
		Notice: s.warnOnce, Warn: s.warn, Work: work,
		Say: func(what string) {
			if l != quiet {
				s.printStatus(what)
			}
		},
		// The IDs in a scripted model's answers are hashes of redacted bytes, so they reveal no secret.
		ModelScript: func(file string, data []byte) (plan.ModelScript, error) {
			script, err := stub.Parse(file, data)
			if err != nil {
				return nil, err
			}
			clean := func(doc []byte) []byte {
				doc, _ = secrets.JSON(doc)
				return doc
			}
			return func() http.Handler { return script.HandlerOver(clean) }, nil
		},
		Cluster: settleCluster, Absent: containers.Absent,
		Open: func(ctx context.Context, o runner.Opening) (sandbox.Backend, error) {
			if len(o.Trials) > 0 && o.Trials[0].Kubernetes != nil {
				return openCluster(ctx, s, o)
			}
			if o.Isolated {
				return s.openContainers(ctx, o, secrets, work)
			}
			if len(o.Trials) > 0 {
				s.warnOfNoIsolation(o.Trials)
			}
			return local.Open(local.Options{Run: o.Run, Resume: o.Resume, Env: s.found.environment(), Without: plan.KeyVariables(o.Trials)})
		},
		Watch: func(ctx context.Context, trials, workers int) (func(runner.Update), func()) {
			shown = newProgress(ctx, s.stderr, s.lookup, l, f, trials, workers)
			return shown.update, shown.close
		},
	}
	if s.found != nil && defence.NamedFiles {
		h.Permit = func(ctx context.Context, file string, gifts []plan.Gift) error {
			return s.found.permit(ctx, s, file, gifts, secrets)
		}
	}
	if l == verbose {
		h.ServerLog = func(t *plan.Trial, server string) io.Writer {
			return &lineWriter{out: s.stderr, prefix: fmt.Sprintf("[%s/%d %s] ", t.Task, t.Number, server), secrets: secrets}
		}
	}
	if keep {
		h.Hold = func(ctx context.Context, t *plan.Trial, sandbox sandbox.Sandbox) {
			shown.close()
			s.hold(ctx, t, sandbox)
		}
	}
	return h
}

// openContainers opens the container engine for a run. Image builds use the registry and proxy settings of
// this machine's environment; passwords in them are added to secrets. work shows long operations.
func (s *state) openContainers(ctx context.Context, o runner.Opening, secrets *secret.Set, work runner.Work) (*containers.Backend, error) {
	return containers.Open(ctx, containers.Options{
		Run: o.Run, Resume: o.Resume, Guest: s.guest, Digest: s.digest, Network: buildNetwork(s.lookup, secrets), Redact: secrets.String, Work: work,
	})
}

// outputFiles returns the regular files among outputs.
func outputFiles(outputs ...io.Writer) (all []fs.FileInfo) {
	for _, w := range outputs {
		file, ok := fileOf(w)
		if !ok {
			continue
		}
		if info, err := file.Stat(); err == nil && info.Mode().IsRegular() {
			all = append(all, info)
		}
	}
	return all
}

func checkModelScript(file string, data []byte) error {
	_, err := stub.Parse(file, data)
	return err
}

// hold prints how to enter a sandbox and waits until ctx is done.
func (s *state) hold(ctx context.Context, t *plan.Trial, b sandbox.Sandbox) {
	fmt.Fprintf(s.stderr, "\nthe sandbox of %s/%d is running, with its servers. To enter:\n", t.Task, t.Number)
	if t.Isolated() {
		var names []string
		for _, c := range t.Spec().Containers {
			names = append(names, c.Name)
		}
		slices.Sort(names)
		for _, name := range names {
			fmt.Fprintf(s.stderr, "  %-12s %s\n", name, b.Enter(name))
		}
		for _, server := range t.Servers {
			if server.Shared {
				fmt.Fprintf(s.stderr, "  %-12s is shared by the run; find it with: docker ps --filter label=waza.run=%s\n", server.Name, t.Run)
			}
		}
		fmt.Fprintln(s.stderr, "An image without a shell cannot be entered. Press Ctrl-C to remove the sandbox.")
	} else {
		fmt.Fprintf(s.stderr, "  %s\n", b.Enter(sandbox.Agent))
		fmt.Fprintln(s.stderr, "Nothing is isolated there. Press Ctrl-C to remove it.")
	}
	<-ctx.Done()
}

// warnOfNoIsolation warns that nothing is isolated, and lists the settings of the eval that
// have no effect.
func (s *state) warnOfNoIsolation(trials []*plan.Trial) {
	s.say("without --isolate nothing is isolated: agents and servers run as processes of yours, with your files, network and environment")
	if s.found != nil {
		s.say("an eval that was found, not named, gets of your environment only " + strings.Join(plainVariables(), ", ") + ", and what --allow-env names")
	}
	if names := plan.NotEnforced(trials); len(names) > 0 {
		s.say("without --isolate these have no effect: " + strings.Join(names, ", "))
	}
}

// judges creates clients for judges, with API keys from the environment.
type judges struct {
	lookup  func(string) (string, bool)
	secrets *secret.Set

	mu    sync.Mutex
	known map[endpoint]*judge.Client // guarded by mu
}

// endpoint holds the fields of a judge that determine its client.
type endpoint struct {
	baseURL, keyEnv string
	seconds         int
}

func newJudges(s *state, secrets *secret.Set) *judges {
	return &judges{lookup: s.lookup, secrets: secrets, known: map[endpoint]*judge.Client{}}
}

// connect returns a client for j's endpoint, with the API key from the environment. Clients are
// reused. Errors are usage errors.
func (c *judges) connect(j evidence.Judge) (trial.Judge, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	at := endpoint{j.BaseURL, j.APIKeyEnv, j.TimeoutSeconds}
	if client, ok := c.known[at]; ok {
		return client, nil
	}
	key := ""
	if j.APIKeyEnv != "" {
		key, _ = c.lookup(j.APIKeyEnv)
	}
	client, err := judge.New(j, key, c.secrets)
	if err != nil {
		return nil, usage("the judge of graders: %w", err)
	}
	c.known[at] = client
	return client, nil
}

// systemCA is the CA bundle of Debian-based systems.
const systemCA = "/etc/ssl/certs/ca-certificates.crt"

// buildNetwork returns the settings of this machine that a build needs to reach a registry.
// Passwords in them are added to secrets.
func buildNetwork(lookup func(string) (string, bool), secrets *secret.Set) images.Network {
	n := images.Network{CA: certificates(lookup), Env: map[string]string{}, Proxy: map[string]string{}}
	pass := func(to map[string]string, from, as string) {
		value, _ := lookup(from)
		if value == "" {
			return
		}
		to[as] = value
		hidePassword(value, secrets)
	}
	for _, name := range []string{"PIP_INDEX_URL", "PIP_EXTRA_INDEX_URL", "PIP_TRUSTED_HOST", "GOPROXY", "GOSUMDB", "GOPRIVATE", "GONOPROXY", "GONOSUMDB"} {
		pass(n.Env, name, name)
	}
	// The command is uv's, so uv's own variables override pip's. npm's usual lower-case
	// spelling overrides the upper-case one.
	for _, name := range []string{"UV_INDEX_URL", "UV_DEFAULT_INDEX"} {
		pass(n.Env, name, "PIP_INDEX_URL")
	}
	for _, name := range []string{"NPM_CONFIG_REGISTRY", "npm_config_registry"} {
		pass(n.Env, name, "NPM_CONFIG_REGISTRY")
	}
	own := userRegistries(lookup)
	for name, address := range own.env {
		if n.Env[name] == "" {
			n.Env[name] = address
		}
	}
	n.NPMRC = own.npmrc
	for _, name := range []string{"HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "http_proxy", "https_proxy", "no_proxy"} {
		pass(n.Proxy, name, name)
	}
	return n
}

// registries are the registries in the user's configuration of npm and pip. If a build used public registries
// instead, it might get packages that strangers published under private names.
type registries struct {
	env   map[string]string
	npmrc string // registries of scopes
}

// userRegistries reads the registries from the user's files. It removes credentials, even from addresses,
// since a build must not get logins from files.
func userRegistries(lookup func(string) (string, bool)) registries {
	r := registries{env: map[string]string{}}
	home, _ := lookup("HOME")
	file := func(variable, usual string) string {
		if named, _ := lookup(variable); named != "" || home == "" {
			return named
		}
		return filepath.Join(home, usual)
	}
	for key, value := range settingsIn(file("NPM_CONFIG_USERCONFIG", ".npmrc")) {
		switch {
		case key == "registry":
			r.env["NPM_CONFIG_REGISTRY"] = value
		case strings.HasPrefix(key, "@") && strings.HasSuffix(key, ":registry"):
			r.npmrc += key + "=" + value + "\n"
		}
	}
	for _, name := range []string{file("", ".pip/pip.conf"), file("PIP_CONFIG_FILE", ".config/pip/pip.conf")} {
		for key, value := range settingsIn(name) {
			switch key {
			case "index-url":
				r.env["PIP_INDEX_URL"] = value
			case "extra-index-url":
				r.env["PIP_EXTRA_INDEX_URL"] = value
			}
		}
	}
	return r
}

// loginIn matches the name and password in an address, which may themselves contain "@".
var loginIn = regexp.MustCompile(`//[^/?#\s]*@`)

// settingsIn yields each key and value of a file in the format of .npmrc and pip.conf. It removes logins from
// addresses.
func settingsIn(name string) iter.Seq2[string, string] {
	return func(yield func(string, string) bool) {
		data, err := files.Read(name, maxCertificates)
		if err != nil {
			return
		}
		for line := range strings.Lines(string(data)) {
			key, value, ok := strings.Cut(line, "=")
			if key, value = strings.TrimSpace(key), strings.TrimSpace(value); ok && value != "" && !strings.Contains(value, "${") && !yield(key, loginIn.ReplaceAllString(strings.Trim(value, `"'`), "//")) {
				return
			}
		}
	}
}

// hidePassword registers a URL with credentials, and its password, as secrets. A user name without a password
// counts as a token.
func hidePassword(address string, secrets *secret.Set) {
	u, err := url.Parse(address)
	if err != nil || u.User == nil {
		return
	}
	secrets.Add(address)
	password, ok := u.User.Password()
	if !ok {
		password = u.User.Username()
	}
	secrets.Add(password)
}

// maxCertificates is the maximum size of a CA bundle, in bytes; system bundles have about 250 KB.
const maxCertificates = 8 << 20

// certificates returns all CA bundles that the environment names, or the system's bundle if it names none. It
// returns nil if none can be read.
func certificates(lookup func(string) (string, bool)) []byte {
	var all bytes.Buffer
	seen := map[string]bool{"": true}
	for _, name := range []string{"NODE_EXTRA_CA_CERTS", "SSL_CERT_FILE", "PIP_CERT"} {
		path, _ := lookup(name)
		if seen[path] {
			continue
		}
		seen[path] = true
		if content, err := files.Read(path, maxCertificates); err == nil {
			all.Write(content)
			all.WriteByte('\n')
		}
	}
	if all.Len() == 0 {
		content, err := files.Read(systemCA, maxCertificates)
		if err != nil {
			return nil
		}
		return content
	}
	return all.Bytes()
}

// certificateCache returns the user's cache of sandbox certificates. It returns no cache if the cache's
// directory is in a project, which could contain a forged certificate.
func certificateCache() selftest.Cache {
	dir, err := os.UserCacheDir()
	if err != nil {
		return selftest.Cache{}
	}
	project := withoutLinks(repository("."))
	_, noRepository := os.Lstat(filepath.Join(project, ".git"))
	isHome := noRepository != nil && isBelow(project, withoutLinks(os.Getenv("HOME")))
	if isBelow(project, withoutLinks(dir)) && !isHome {
		return selftest.Cache{}
	}
	return selftest.OpenCache(files.Named(dir))
}

func mcpFlag() cli.Flag {
	return &cli.StringFlag{
		Name: "mcp", OnlyOnce: true,
		Usage: "Add the MCP servers of a client's `FILE` (such as mcp.json) to the eval's",
	}
}

func egressFlag() cli.Flag {
	return &cli.StringSliceFlag{Name: "egress", Usage: "Let a server reach a host, as `NAME=HOST` (such as tracker=api.example.com:443; repeatable)"}
}

// readOverlay reads the file of --mcp and prints notes on the parts that are ignored. It
// returns nil without the flag.
func (s *state) readOverlay(c *cli.Command) (*mcpconfig.ClientFile, error) {
	if !c.IsSet("mcp") {
		return nil, nil
	}
	return s.overlayFrom(c.String("mcp"))
}

func (s *state) overlayFrom(path string) (*mcpconfig.ClientFile, error) {
	data, err := files.Read(path, strictyaml.MaxBytes)
	if err != nil {
		return nil, usage("--mcp: %w", err)
	}
	return s.readClient(path, data)
}

// arguments returns the arguments of a command and, separately, the words after "--", which form a command
// line of their own.
func (s *state) arguments(c *cli.Command) (args, command []string) {
	args = c.Args().Slice()
	if at := slices.Index(s.args, "--"); at >= 0 {
		command = s.args[at+1:]
		args = args[:len(args)-len(command)]
	}
	return args, command
}

// readClient parses a client's configuration file, or data in that format, and prints its
// notes.
func (s *state) readClient(name string, data []byte) (*mcpconfig.ClientFile, error) {
	client, err := mcpconfig.ReadClient(name, data)
	if err != nil {
		return nil, &exitError{exitUsage, err}
	}
	for _, n := range client.Notes {
		s.say(text.Inert(fmt.Sprintf("%s:%d:%d: note: %s", client.Name, n.Position.Line, n.Position.Column, n.Text)))
	}
	return client, nil
}

// hostOfRecorded is like host for a recorded run, whose judges are asked only if the flags of c allow it.
func (s *state) hostOfRecorded(c *cli.Command, l verbosity) runner.Host {
	h := s.host(l, formatOf(c), false)
	h.Recorded = func(j evidence.Judge) (trial.Judge, error) {
		if missing := missingJudgeFlags(j, c.String(judgeURL), c.String(judgeKeyEnv)); missing != "" {
			return nil, usage("the run's record names the judge's endpoint and the variable with its key, and may come from someone else: to allow that, give %s", missing)
		}
		return h.Connect(j)
	}
	return h
}
