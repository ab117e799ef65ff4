// Package images builds images of servers that are packages of a registry: build contexts,
// tags, and the lock of resolved versions.
//
// It builds nothing and asks nobody: it makes build contexts, for an engine to
// build, and reads what came out of them. The Dockerfiles are in it.
package images
