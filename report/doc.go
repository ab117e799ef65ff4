// Package report shows runs as pages of HTML: one file that needs no network, or pages of
// a server.
//
// What it shows was captured of strangers. All of it goes through html/template and, where
// it is of one line or could change the order of what is shown, through internal/visible;
// the only script and style are our own, named by hash in a Content-Security-Policy. It
// reads run directories and knows no engine, network or process.
package report
