package grading

import (
	"fmt"
	"strings"
)

// Names of the parts of a score.
const (
	partSelection = "selection"
	partParams    = "params"
	partErrors    = "errors"
)

// part is one part of a score, from 0 to 1.
type part struct {
	name          string
	score, weight float64
}

// parts are those that are configured and apply.
func (c *ComplianceConfig) parts(sel selection, failed failures) []part {
	weights := c.Weights
	if weights == nil {
		weights = new(PartWeights)
	}
	var parts []part
	if c.selects() {
		scores := sel.Scores()
		parts = append(parts, part{partSelection, scores.Selection, weightOf(weights.Selection)})
		if scores.Params != nil && sel.constrained {
			parts = append(parts, part{partParams, *scores.Params, weightOf(weights.Params)})
		}
	}
	if c.MaxToolErrors != nil {
		parts = append(parts, part{partErrors, failed.part(*c.MaxToolErrors), weightOf(weights.Errors)})
	}
	return parts
}

// mean is the weighted mean of parts; false where none has a weight.
func weighted(parts []part) (float64, bool) {
	var sum, weights float64
	for _, p := range parts {
		sum += p.score * p.weight
		weights += p.weight
	}
	if weights == 0 {
		return 0, false
	}
	return sum / weights, true
}

func (c *ComplianceConfig) threshold() float64 {
	if c.Threshold == nil {
		return 1
	}
	return *c.Threshold
}

// describeScore says what a score below 1 is made of, and that it is 0 where a gate failed.
func describeScore(gated bool, score, threshold float64, parts []part) string {
	var each []string
	for _, p := range parts {
		each = append(each, fmt.Sprintf("%s %.2f", p.name, p.score))
	}
	if gated {
		return fmt.Sprintf("The score is 0, since a gate failed; the parts make %.2f (%s) and it takes %.2f.", score, strings.Join(each, ", "), threshold)
	}
	return fmt.Sprintf("The score is %.2f (%s); it takes %.2f.", score, strings.Join(each, ", "), threshold)
}
