// Package view decides what a person is shown of a run, whatever shows it: pages, comments
// in Markdown, JUnit XML or a terminal. [Run] has the verdict on a run and what is missing
// of it; [Task] how a task's trials ended; [Why] why a trial did not pass; [Remarks] and
// [Events] what to look at in a server before trusting it; [Figure] and [Difference] how
// runs differ.
//
// It is pure. Its texts quote strangers, so whoever shows them makes them harmless in its
// own format.
package view
