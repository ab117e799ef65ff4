// Package selftest attacks a sandbox of the kind that a run is about to use, and reports
// what got out.
//
// What is probed is opened as a trial's sandbox is. Two are opened, so that one can
// reach for the other, and a listener is put on the network of the engine's host. An
// attack got out where a listener heard it, or where it did what no container may do. A
// listener that does not hear those who stand beside it certifies nothing, and what
// depends on it counts as not tried.
//
// It knows nothing of engines, and runs nothing but our own executable.
package selftest
