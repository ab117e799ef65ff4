package main

import (
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/urfave/cli/v2"
)

// permute moves the flags of a command before its arguments. The library stops
// reading flags at the first argument, and takes what follows for arguments:
// "waza run eval.yaml --isolate" would run without isolation and say nothing.
// What looks like a flag stays one, so that one nobody knows is an error; after
// "--" everything is an argument.
func permute(app *cli.App, args []string) ([]string, error) {
	at := slices.IndexFunc(args[min(1, len(args)):], func(a string) bool { return !strings.HasPrefix(a, "-") }) + 1
	if at == 0 {
		return args, nil
	}
	command := app.Command(args[at])
	if command == nil {
		return args, nil
	}
	if at+1 < len(args) {
		below := slices.IndexFunc(command.Subcommands, func(c *cli.Command) bool { return c.HasName(args[at+1]) })
		if below >= 0 {
			command, at = command.Subcommands[below], at+1
		}
	}
	var flags, rest []string
	for i := at + 1; i < len(args); i++ {
		arg := args[i]
		switch {
		case arg == "--help" || arg == "-h": // the library takes an argument beside it for a topic
			return append(slices.Clone(args[:at+1]), arg), nil
		case arg == "--":
			rest = append(rest, args[i+1:]...)
			i = len(args)
		case !strings.HasPrefix(arg, "-") || arg == "-":
			rest = append(rest, arg)
		case takesValue(command, arg):
			if i+1 == len(args) {
				return nil, usage("flag %s needs a value; see waza %s --help", arg, strings.Join(args[1:at+1], " "))
			}
			flags = append(flags, arg, args[i+1])
			i++
		default:
			flags = append(flags, arg)
		}
	}
	return slices.Concat(args[:at+1], flags, []string{"--"}, rest), nil
}

// takesValue says whether arg is a flag of command whose value is the next
// argument.
func takesValue(command *cli.Command, arg string) bool {
	name := strings.TrimLeft(arg, "-")
	if strings.Contains(name, "=") {
		return false
	}
	for _, flag := range command.Flags {
		if !slices.Contains(flag.Names(), name) {
			continue
		}
		_, isBool := flag.(*cli.BoolFlag)
		return !isBool
	}
	return false
}

// once is the value of a flag that may be given once. The library takes the last
// of several and says nothing.
type once struct {
	value string
	set   bool
}

func (o *once) Set(value string) error {
	if o.set {
		return errors.New("the flag takes one file and is here twice; put the servers into one")
	}
	o.value, o.set = value, true
	return nil
}

func (o *once) String() string { return o.value }

// duration is the value of a flag: whole seconds, or a time such as 90s.
type duration struct{ time.Duration }

func (d *duration) Set(text string) error {
	if seconds, err := time.ParseDuration(text + "s"); err == nil && !strings.ContainsAny(text, ".eE-") {
		d.Duration = seconds
		return nil
	}
	parsed, err := time.ParseDuration(text)
	if err != nil {
		return errors.New("must be whole seconds, such as 300, or a time, such as 5m")
	}
	d.Duration = parsed
	return nil
}

func (d *duration) String() string { return "" }
