package grading

import (
	"fmt"
	"maps"
	"slices"

	"github.com/waza-isolate/waza/evidence"
	"github.com/waza-isolate/waza/evidence/capture"
)

// distinct lists the names of things, each once, in alphabetical order.
func distinct[T any](all []T, name func(T) string) []string {
	names := []string{}
	for _, one := range all {
		names = append(names, name(one))
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// toolNames lists the tools used.
func toolNames(uses []capture.Use) []string {
	return distinct(uses, func(use capture.Use) string { return use.Tool })
}

// describe lists uses for a sentence, captured calls by their number.
func describe(uses []capture.Use) mention {
	text := listOf(uses, func(use capture.Use) string {
		if use.Call == nil {
			return fmt.Sprintf("%s (%s)", quote(use.Tool), use.Source)
		}
		return describeCall(*use.Call)
	})
	return mention{text, captured(uses)}
}

func describeCall(call evidence.Call) string { return describeAs(call, string(call.Outcome)) }

// describeAs describes a call with its outcome as part of a sentence.
func describeAs(call evidence.Call, outcome string) string {
	return fmt.Sprintf("call %d (%s of %s: %s)", call.Seq, quote(call.Tool), call.Server, outcome)
}

func describeCalls(calls []evidence.Call) mention {
	return mention{listOf(calls, describeCall), numbers(calls)}
}

// numbers lists the numbers of calls for a verdict's details.
func numbers(calls []evidence.Call) []int {
	seqs := []int{}
	for _, call := range calls {
		seqs = append(seqs, call.Seq)
	}
	return seqs
}

func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }

func filter[T any](all []T, keep func(T) bool) []T {
	var kept []T
	for i, v := range all {
		if !keep(v) {
			continue
		}
		if kept == nil {
			kept = make([]T, 0, len(all)-i)
		}
		kept = append(kept, v)
	}
	return kept
}
