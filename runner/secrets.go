package runner

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/waza-isolate/waza/evidence/secret"
	"github.com/waza-isolate/waza/internal/bounded"
	"github.com/waza-isolate/waza/internal/files"
	"github.com/waza-isolate/waza/internal/proc"
	"github.com/waza-isolate/waza/mcpconfig"
	"github.com/waza-isolate/waza/runner/plan"
)

const (
	// maxSecret is the maximum size of a secret in bytes. Linux limits an environment variable
	// to 128 KiB.
	maxSecret = 64 << 10
	// secretTimeout bounds a command that prints a secret.
	secretTimeout = 30 * time.Second
	// maxComplaint is how many bytes of the command's stderr are shown in errors.
	maxComplaint = 500
)

// vault holds the values of a run's secrets.
type vault struct {
	values map[string]string // by sourceKey
	dir    string
	lookup func(string) (string, bool)
	known  *secret.Set
}

// openVault reads every secret of the trials' servers, each source once. Files and commands are
// relative to dir, the eval's directory. It adds each value to secrets under the name
// SERVER/NAME. The error names every secret that cannot be read, but no value.
func openVault(ctx context.Context, trials []*plan.Trial, dir string, lookup func(string) (string, bool), secrets *secret.Set) (*vault, error) {
	v := &vault{values: map[string]string{}, dir: dir, lookup: lookup, known: secrets}
	failed := map[string]bool{}
	var errs []error
	for _, t := range trials {
		for _, s := range t.Servers {
			for _, name := range slices.Sorted(maps.Keys(s.Config.Secrets)) {
				err := v.readSecret(ctx, s.Config.Secrets[name], s.Name+"/"+name)
				if ctx.Err() != nil {
					return nil, context.Cause(ctx)
				}
				if where := fmt.Sprintf("server %q: secrets.%s", s.Name, name); err != nil && !failed[where] {
					failed[where] = true
					errs = append(errs, fmt.Errorf("%s: %w", where, err))
				}
			}
		}
	}
	return v, errors.Join(errs...)
}

// sourceKey returns a key for a source.
func sourceKey(s mcpconfig.Secret) string {
	return fmt.Sprintf("%q", append([]string{s.Env, s.File}, s.Command...))
}

func (v *vault) readSecret(ctx context.Context, from mcpconfig.Secret, name string) error {
	key := sourceKey(from)
	value, have := v.values[key]
	if !have {
		var err error
		if value, err = v.read(ctx, from); err != nil {
			return err
		}
		v.values[key] = value
	}
	v.known.Add(value, name)
	return nil
}

// read returns the value of a secret from its source.
func (v *vault) read(ctx context.Context, from mcpconfig.Secret) (value string, err error) {
	what := from.String()
	switch {
	case from.Env != "":
		var set bool
		if value, set = v.lookup(from.Env); !set {
			return "", fmt.Errorf("%s is not set", what)
		}
	case from.File != "":
		value, err = v.readFile(from.File)
	default:
		value, err = v.ask(ctx, from.Command)
	}
	if err != nil {
		return "", fmt.Errorf("%s: %w", what, err)
	}
	if from.Env == "" {
		value = strings.TrimSuffix(strings.TrimSuffix(value, "\n"), "\r")
	}
	return value, checkSecret(what, value)
}

var errTooLong = fmt.Errorf("has more than %d bytes, which no variable should hold; put it into a file of the server", maxSecret)

func checkSecret(what, value string) error {
	switch {
	case value == "":
		return fmt.Errorf("%s is empty", what)
	case len(value) > maxSecret:
		return fmt.Errorf("%s: %w", what, errTooLong)
	case strings.ContainsRune(value, 0):
		return fmt.Errorf("%s holds a NUL, which no variable can", what)
	case !secret.CanHide(value):
		return fmt.Errorf("%s has fewer than %d bytes: so short a value cannot be distinguished from other text, and would not be redacted", what, secret.MinLength)
	}
	return nil
}

// readFile reads a file with a secret, which may be followed by a line break of two bytes.
func (v *vault) readFile(name string) (string, error) {
	if !filepath.IsAbs(name) {
		name = filepath.Join(v.dir, name)
	}
	content, err := files.Read(name, maxSecret+2)
	if errors.Is(err, files.ErrTooLarge) {
		err = errTooLong
	}
	return string(content), files.Cause(err)
}

// ask runs a command in the eval's directory and returns its output. Its process group is
// killed when it ends.
func (v *vault) ask(ctx context.Context, command []string) (string, error) {
	limited, cancel := context.WithTimeout(ctx, secretTimeout)
	defer cancel()
	stdout, stderr := &bounded.Head{Limit: maxSecret + 3}, &bounded.Head{Limit: maxComplaint}
	err := proc.Run(limited, proc.Command{Args: command, Dir: v.dir, Stdout: stdout, Stderr: stderr})
	switch {
	case limited.Err() != nil && ctx.Err() == nil:
		return "", fmt.Errorf("the command took longer than %s", secretTimeout)
	case err != nil:
		if said := strings.TrimSpace(v.known.String(stderr.String())); said != "" {
			return "", fmt.Errorf("%w, and said %q", err, said)
		}
		return "", err
	}
	return string(stdout.Bytes()), nil
}

// Give sets the secrets of every server in the environment that it is started with.
func (v *vault) Give(trials []*plan.Trial) {
	for _, t := range trials {
		for i := range t.Servers {
			s := &t.Servers[i]
			env := maps.Clone(s.Expanded.Env)
			for name, from := range s.Config.Secrets {
				if env == nil {
					env = map[string]string{}
				}
				env[name] = v.values[sourceKey(from)]
			}
			s.Expanded.Env = env
		}
	}
}
