//go:build unix && !linux && !darwin

package local

// bootID and processStart are not known here, so gc ends no process.
func bootID() string { return "" }

func processStart(int) string { return "" }
