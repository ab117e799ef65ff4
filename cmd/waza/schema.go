package main

import (
	"github.com/urfave/cli/v2"

	"github.com/waza-isolate/waza/schemas"
)

// schemaCommand is waza schema.
type schemaCommand struct{ *state }

func (s schemaCommand) command() *cli.Command {
	return &cli.Command{
		Name: "schema", Usage: "print the JSON Schema of eval files, task files or results.json", ArgsUsage: "eval|task|results", OnUsageError: usageError,
		Action: func(c *cli.Context) error {
			documents := map[string][]byte{"eval": schemas.Eval(), "task": schemas.Task(), "results": schemas.Results()}
			document, ok := documents[c.Args().First()]
			if !ok || c.NArg() != 1 {
				return usage("schema takes one of: eval, task, results")
			}
			_, err := s.stdout.Write(document)
			return err
		},
	}
}
