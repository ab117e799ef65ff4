// Package match compares calls of tools with calls that are expected: which call
// stands for which expectation, how far its arguments do what is expected of them,
// what is missing and what is too much.
//
// It is pure. It knows no evidence and gives no verdict: what a mode finds here,
// and the [Scores] made of it, are for a grader to judge.
package match
