// Package images describes the images of servers that are registry packages or built from
// source: build contexts, tags, and the lock of resolved versions.
//
// It builds nothing and uses no network: it creates build contexts for an engine and reads
// the results. The Dockerfiles are embedded.
package images
