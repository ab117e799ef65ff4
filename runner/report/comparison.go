package report

import "github.com/waza-isolate/waza/runner/results"

// Comparison is the page of several runs side by side.
func Comparison(c results.Comparison, runs []Run, l Links) Page {
	return Page{ID: PathCompare, Title: "Comparison", name: "compare", data: comparison{c, runs, l}}
}

type comparison struct {
	results.Comparison
	Of    []Run // those compared, in order, as far as they are in the document
	Links Links
}
