package inspection

import "io"

// Options is how a report is printed. Width is that of the terminal; 0 is any.
type Options struct {
	Width int
	Full  bool   // texts and schemas whole
	Dir   string // where the evidence is
}

// Print writes a report for a person.
func Print(w io.Writer, r Report, o Options) error {
	p := &page{Options: o}
	p.report(r)
	_, err := io.WriteString(w, p.out.String())
	return err
}
