package results

// What tests of the tables use too.
var (
	CardRun    = cardRun
	StrangeRun = strangeRun
	Shares     = shares
)
