// Package serve shows run directories to a browser and to programs on the same machine:
// the pages of report, runs as they happen, and JSON.
//
// It reads what is on disk when it is asked, and keeps nothing of its own there. What a
// run holds was captured of strangers: no link in it is followed, no file of it is served
// as anything but text, and no page but its own can ask for anything.
package serve
