package pagetest

// The trial that is seen, and how many of its steps are.
const (
	trial = `[...document.querySelectorAll(".trial")].find(t => t.checkVisibility())`
	steps = `[...(` + trial + `).querySelectorAll(".row")].filter(r => r.checkVisibility()).length`
)
