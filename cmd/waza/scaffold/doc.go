// Package scaffold writes the files that an eval begins with: the eval of MCP servers, tasks for the
// tools that they list, a Dockerfile and a workflow.
//
// It is pure: it reads directories that it is given as file systems and returns files. What servers
// say is hostile. It reaches a file only as a JSON value, and a path, a comment or a prompt only
// where it is a plain name.
package scaffold
