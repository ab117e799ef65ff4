// Package serve serves run directories over HTTP on the same machine: pages, JSON, and
// runs at work as events.
//
// It reads what is on disk when it is asked, and keeps nothing of its own there. What a
// run holds was captured of strangers: no link in it is followed, no file of it is served
// as anything but text, and no page but its own can ask for anything.
package serve
