// Package grading derives verdicts from the evidence of a trial. It reads only the evidence
// directory, so the same evidence always has the same verdicts, byte for byte.
//
// A grader whose evidence is missing returns an error, never a pass. This package runs no
// programs and uses no model, network or engine.
package grading
