// Package report renders runs as HTML pages, in one file or served.
//
// What it shows was captured of strangers. All of it goes through html/template and, where
// it is of one line or could change the order of what is shown, through internal/visible;
// the only script and style are our own, named by hash in a Content-Security-Policy. It
// reads run directories and knows no engine, network or process.
package report
