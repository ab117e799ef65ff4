// Package images makes images of servers that are written as a package of a
// registry: what such an image is built from, under which tag it is kept, and the
// lock that holds what its packages were resolved to.
//
// It builds nothing and asks nobody: it makes build contexts, for an engine to
// build, and reads what came out of them. The Dockerfiles are in it.
package images
