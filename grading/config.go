// Package grading turns a trial's evidence into verdicts. It reads the evidence
// directory and nothing else, so the same evidence gives the same verdicts.
package grading
