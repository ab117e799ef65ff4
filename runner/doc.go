// Package runner runs the trials of an eval, as package plan has planned them, and keeps the
// run directory. [Run] hands trials to workers, which run each by package trial, as often as
// it takes, and grade its evidence. From its directory a run is resumed, graded anew,
// summarised and reported.
package runner
