// Package match compares tool calls with expected calls: matching, arguments, modes and
// scores.
//
// It is pure. It knows no evidence and gives no verdict: what a mode finds here,
// and the [Scores] made of it, are for a grader to judge.
package match
