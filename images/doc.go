// Package images describes images of servers that are packages of a registry or built from
// source: build contexts, tags, and the lock of resolved versions.
//
// It builds nothing and reaches no network: it makes build contexts for an engine, and reads the
// results. The Dockerfiles are embedded.
package images
