package browsertest

// Home is the directory of the browser's process.
func Home(b *Browser) string { return b.home }
