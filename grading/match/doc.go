// Package match compares tool calls with expected calls: it matches calls and arguments, and
// scores the result.
//
// It is pure. It knows no evidence and gives no verdict: graders judge the [Result] and its
// [Scores].
package match
