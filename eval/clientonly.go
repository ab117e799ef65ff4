package eval

import (
	"maps"

	"github.com/waza-isolate/waza/mcpconfig"
)

// OfClient is an eval that has the servers of a client's file and no tasks: enough to
// start them. Commands without an image run in image, where that is not empty. Errors
// are as [Load] has them.
func OfClient(file *mcpconfig.ClientFile, image string) (*Eval, error) {
	e := &Eval{Path: file.Name}
	e.Config.MCPServers = maps.Clone(file.Servers)
	e.Config.Isolation.ServerImage = image
	servers{doc: file.Document(), place: file.Place, eval: e}.checkDeclared(file.Servers)
	return e, file.Document().Err()
}
