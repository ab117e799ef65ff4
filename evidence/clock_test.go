package evidence

import (
	"testing"
	"testing/synctest"
	"time"
)

// TestClock checks that a clock goes on by what passes, from wherever it started, and
// that what it says has no reading of the machine's clock left in it.
func TestClock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start := time.Date(2001, 2, 3, 4, 5, 6, 0, time.FixedZone("east", 3600))
		c := StartClock(start)
		time.Sleep(90 * time.Second)
		if got, want := c.Now(), start.Add(90*time.Second).UTC(); got != want {
			t.Errorf("after 90 s: %s, want %s", got, want)
		}
	})
}

// TestRecordsAreInOrder records from many places at once: times follow numbers.
func TestRecordsAreInOrder(t *testing.T) {
	r, dir := newRecorder(t, nil)
	done := make(chan struct{})
	for range 8 {
		go func() {
			for range 200 {
				r.Frame(Frame{Raw: []byte("{}")})
				r.Event(Event{Kind: "x"})
			}
			done <- struct{}{}
		}()
	}
	for range 8 {
		<-done
	}
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
	var last time.Time
	for frame, err := range dir.Frames() {
		if err != nil || frame.Time.Before(last) {
			t.Fatalf("frame %d of %s comes after %s, %v", frame.Seq, frame.Time, last, err)
		}
		last = frame.Time
	}
	events, err := dir.Events()
	if err != nil {
		t.Fatal(err)
	}
	for i := range events[1:] {
		if events[i+1].Time.Before(events[i].Time) {
			t.Fatalf("event %d of %s comes after %s", i+1, events[i+1].Time, events[i].Time)
		}
	}
}
