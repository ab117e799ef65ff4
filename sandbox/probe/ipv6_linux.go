package probe

import (
	"os"
	"strconv"
	"strings"
	"time"
)

const (
	// settling is how long an interface may take to give itself IPv6 addresses: a
	// second or two go by until it is sure that nobody else has them (RFC 4862, 5.4).
	settling = 3 * time.Second
	// tentative is the flag of an address that is not yet of use (if_addr.h).
	tentative = 0x40
)

// awaitAddresses waits until our interfaces can use their IPv6 addresses. An attack
// that came before would be held by nothing but the time of day.
func awaitAddresses() {
	for until := time.Now().Add(settling); time.Now().Before(until); time.Sleep(50 * time.Millisecond) {
		table, err := os.ReadFile("/proc/net/if_inet6")
		if err != nil || !hasTentative(string(table)) {
			return
		}
	}
}

// hasTentative reads /proc/net/if_inet6: address, index, prefix, scope, flags, name.
func hasTentative(table string) bool {
	for line := range strings.Lines(table) {
		fields := strings.Fields(line)
		if len(fields) < 5 {
			continue
		}
		if flags, err := strconv.ParseUint(fields[4], 16, 32); err == nil && flags&tentative != 0 {
			return true
		}
	}
	return false
}
