// Package runner runs the trials that package plan has planned: [Run] hands them to workers,
// which run each by package trial, as often as it takes, and grade its evidence. It keeps the
// run directory, from which a run is resumed, graded anew, summarised and reported.
package runner
