// Package runner runs an eval: it plans every trial, opens a sandbox for each,
// lets the agent run in it between proxies that record, and leaves evidence that
// is then graded.
//
// The way of the data, top down: [Plan] makes trials of a spec; [Run] hands them
// to workers; a trial's life is in trial.go; what a sandbox is stands in
// backend.go.
package runner
