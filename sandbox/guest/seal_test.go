package guest

import (
	"bytes"
	"errors"
	"io"
	"net"
	"strings"
	"testing"
)

// What a sealed program writes crosses the pipe unreadable, and arrives as it was.
func TestSeal(t *testing.T) {
	ours, theirs := net.Pipe()
	const secret = "s3cret-s3cret-s3cret"
	said := make(chan error, 1)
	var crossed bytes.Buffer
	go func() {
		out, err := sealTo(io.MultiWriter(theirs, &crossed), theirs)
		if err == nil {
			for piece := range strings.SplitSeq(secret, "-") {
				_, err = io.WriteString(out, piece+"-")
			}
		}
		_ = theirs.Close()
		said <- err
	}()
	pipe, err := Seal(ours)
	if err != nil {
		t.Fatal(err)
	}
	got, err := io.ReadAll(pipe)
	if err := errors.Join(err, <-said); err != nil || string(got) != secret+"-" {
		t.Errorf("%q arrives: %v", got, err)
	}
	if crossed.Len() != len(got) || strings.Contains(crossed.String(), "s3cret") {
		t.Errorf("%q crossed the pipe", crossed.String())
	}
}

func TestSealWithoutKey(t *testing.T) {
	if _, err := sealTo(io.Discard, strings.NewReader("short")); err == nil {
		t.Error("a short key is accepted")
	}
	ours, theirs := net.Pipe()
	_ = theirs.Close()
	if _, err := Seal(ours); err == nil {
		t.Error("a program that is gone is given its key")
	}
}
