// Package grading turns a trial's evidence into verdicts. It reads the evidence directory and
// nothing else, so the same evidence gives the same verdicts, byte for byte.
//
// A grader whose evidence is missing says error, never pass. Nothing here runs a program, asks a
// model, or reaches a network or an engine.
package grading
