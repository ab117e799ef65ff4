// Package runner runs the trials that package plan has planned: it opens a sandbox for
// each, lets the agent run in it between proxies that record, and leaves evidence that is
// then graded. [Run] hands trials to workers; a trial's life is in trial.go.
package runner
