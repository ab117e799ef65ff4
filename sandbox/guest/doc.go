// Package guest is process 1 of every container of a trial, and the runner's side of the
// connection to it.
//
// The two ends share one yamux session over the container's attached stdin and
// stdout. Where they are on one machine the runner hands the guest a socket for each
// stream instead, and over stdin and stdout go pings alone. Each stream is one verb:
//
//	hello    who the guest is
//	exec     start a program: stdio, signals, exit
//	accept   listen on an address of this container and hand in what connects
//	dial     connect to an address of this container
//	put get  a tree of files as tar
//	resolve  answer the container's DNS questions and tell of them
//	usage    tell what the container used of its limits
//	watch    the same, and again when it has run into one
//	observe  tell what programs that are watched did
//
// The runner opens every stream but the connections that come in on an accept.
// It believes nothing a guest says beyond what the guest's container could do
// anyway: the guest's side may be taken over by the program it started, so
// everything that comes from there is bounded: by a guard before yamux sees it, and over
// sockets by the kernel, and by how many the runner hands out.
//
// When the session ends, for whatever reason, process 1 ends, and with it
// everything in the container.
package guest
