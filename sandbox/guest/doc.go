// Package guest is process 1 of every container of a trial, and the runner's side of the
// connection to it.
//
// Both ends share one yamux session over the container's attached stdin and stdout. On the same
// machine, the runner instead passes the guest a socket for each stream, and stdin and stdout
// only carry pings. Each stream is one request:
//
//	hello    describe the guest and its container
//	exec     start a program: stdio, signals, exit
//	accept   listen on an address of this container and pass on connections
//	dial     connect to an address of this container
//	signal   send a signal to a program that exec started
//	put get  a tree of files as tar
//	find     one file as tar, without following links
//	resolve  answer the container's DNS queries and report them
//	usage    report the container's resource usage
//	watch    the same, and again when a limit is reached
//	observe  report what watched programs did
//	ping     report that the guest is alive
//
// The runner opens every stream except those for accepted connections. It trusts a guest with
// nothing beyond what the guest's container could do anyway: a program may have taken over the
// guest, so everything from it is bounded: by a guard in front of yamux or, over sockets, by
// the kernel and by how many sockets the runner passes.
//
// When the session ends, for whatever reason, process 1 exits, and with it everything in the
// container.
package guest
