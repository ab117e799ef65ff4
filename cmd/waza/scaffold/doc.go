// Package scaffold writes the files of a new eval: the eval of MCP servers, tasks for the tools that they
// list, a Dockerfile and a workflow.
//
// It is pure: it reads directories through file systems that it is given, and returns files. Texts of servers
// are hostile. They are written to a file only as JSON values, and to a path, a comment or a prompt only if
// they are plain names.
package scaffold
