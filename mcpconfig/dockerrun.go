package mcpconfig

import (
	"maps"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/waza-isolate/waza/internal/strictyaml"
)

// IsDockerRun reports whether the command of s is docker or podman on the host. If s has an
// image, the command is a program in that image.
func IsDockerRun(s Server) bool {
	program := strings.TrimSuffix(path.Base(s.Command), ".exe")
	return s.Image == "" && s.Build == nil && (program == "docker" || program == "podman")
}

// FromDockerRun converts a docker run command to a server with an image. It returns s unchanged unless
// [IsDockerRun]. It does not expand variables. It rejects unknown options, and options that would break
// isolation, with [Errors] at the arguments of s.
//
// It is for isolated runs; without isolation, the command runs unchanged.
func FromDockerRun(name string, s Server) (Server, error) {
	if !IsDockerRun(s) {
		return s, nil
	}
	r := &runReader{findings: findings{server: name}, from: s, to: clone(s), named: map[string]bool{}}
	r.to.Command, r.to.Args, r.to.Env = "", nil, nil
	r.checkFields()
	if r.verb() && r.options() {
		r.image()
	}
	r.checkEnv()
	if err := r.err(); err != nil {
		return Server{}, err
	}
	return r.to, nil
}

// runReader reads the arguments of a docker run command.
type runReader struct {
	findings
	from, to   Server
	at         int             // index of the current argument
	named      map[string]bool // variables that -e passes from env
	entrypoint *string
}

// wrong adds an error for the current argument.
func (r *runReader) wrong(format string, args ...any) {
	r.add("args", strconv.Itoa(r.at), format, args...)
}

// checkFields rejects fields that concern the docker command rather than the server.
func (r *runReader) checkFields() {
	if r.from.Cwd != "" {
		r.invalid("cwd", "cwd is where the docker command itself would run; give the container's directory with -w in args")
	}
}

// verb skips "run" or "container run".
func (r *runReader) verb() bool {
	words := r.from.Args
	if len(words) > 0 && words[0] == "container" {
		r.at++
	}
	if r.at < len(words) && words[r.at] == "run" {
		r.at++
		return true
	}
	r.at = min(r.at, max(0, len(words)-1))
	r.wrong("only docker run is supported; write docker run [OPTIONS] IMAGE, with docker's own options after run, or set the server's image")
	return false
}

// options reads the options up to the image. It stops at an unknown option, since it is unknown whether the
// next argument is the option's value.
func (r *runReader) options() bool {
	for ; r.at < len(r.from.Args); r.at++ {
		arg := r.from.Args[r.at]
		switch {
		case arg == "--":
			r.at++
			return true
		case len(arg) < 2 || arg[0] != '-':
			return true
		case arg[1] == '-':
			if !r.long(arg) {
				return false
			}
		case !r.short(arg):
			return false
		}
	}
	return true
}

func (r *runReader) long(arg string) bool {
	name, value, given := strings.Cut(arg, "=")
	o, known := runOptions()[name[2:]]
	if !known {
		r.wrong("docker run's option %s is not known here; %s", name, strictyaml.Suggest(name[2:], takenOptions()))
		return false
	}
	return r.option(name, o, value, given)
}

// short reads an argument with one or more short options: -it, -eKEY, -ie KEY.
func (r *runReader) short(arg string) bool {
	for letters := arg[1:]; letters != ""; {
		name := "-" + letters[:1]
		o, known := runOptions()[runLetters()[letters[:1]]]
		if !known {
			r.wrong("docker run's option %q holds a letter that is not known here; give the options that matter by their long names", arg)
			return false
		}
		rest := letters[1:]
		if o.switches && !strings.HasPrefix(rest, "=") {
			r.option(name, o, "", false)
			letters = rest
			continue
		}
		return r.option(name, o, strings.TrimPrefix(rest, "="), rest != "")
	}
	return true
}

// option processes one option. Its value may be the next argument.
func (r *runReader) option(name string, o runOption, value string, given bool) bool {
	place := r.at
	if !o.switches && !given {
		if r.at+1 >= len(r.from.Args) {
			r.wrong("%s needs a value", name)
			return false
		}
		r.at++
		value = r.from.Args[r.at]
	}
	here := r.at
	r.at = place // for messages: the position of the option itself
	switch on, err := strconv.ParseBool(value); {
	case o.refuse != "":
		r.wrong("%s %s", name, o.refuse)
	case o.switches && given && (err != nil || !on):
		r.wrong("%s cannot be switched off with isolation; leave it out", name)
	case o.take != nil:
		o.take(r, name, value)
	}
	r.at = here
	return true
}

// image reads the image and the arguments of its entrypoint.
func (r *runReader) image() {
	words := r.from.Args
	if r.at >= len(words) {
		r.at = len(words) - 1
		r.wrong("docker run names no image; add one after the options")
		return
	}
	r.to.Image = words[r.at]
	if r.to.Image == "" || strings.ContainsFunc(r.to.Image, isBlank) {
		r.wrong("%q is not an image name; a name is not empty and contains no spaces", r.to.Image)
	}
	rest := slices.Clone(words[r.at+1:])
	if len(rest) > 0 {
		r.to.Args = rest
	}
	switch {
	case r.entrypoint == nil:
	case *r.entrypoint != "":
		r.to.Command = *r.entrypoint
	case len(rest) == 0:
		r.wrong("--entrypoint is empty and no command follows the image; give one of them")
	default:
		r.to.Command, r.to.Args = rest[0], rest[1:]
	}
}

// checkEnv rejects variables that docker run would not pass to the container.
func (r *runReader) checkEnv() {
	for _, key := range slices.Sorted(maps.Keys(r.from.Env)) {
		if !r.named[key] {
			r.add("env", key, "%s does not reach the container, since docker run passes on only what -e names; add -e %s to args, or remove it", where("env", key), key)
		}
	}
}
