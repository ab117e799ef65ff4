package mcpconfig

import (
	"fmt"
	"math"
	"regexp"
	"strconv"
)

// SizePattern is what a size must match.
const SizePattern = `^([1-9][0-9]{0,15})([bkmgBKMG]?)$`

var sizePattern = regexp.MustCompile(SizePattern)

// ParseSize reads a size such as 512m: a whole number of bytes, or of KiB (k),
// MiB (m) or GiB (g), as Docker's --memory does.
func ParseSize(s string) (bytes int64, err error) {
	parts := sizePattern.FindStringSubmatch(s)
	if parts == nil {
		return 0, fmt.Errorf("%q is not a size; write a whole number and k, m or g, such as 512m", s)
	}
	number, err := strconv.ParseInt(parts[1], 10, 64)
	if err != nil {
		return 0, fmt.Errorf("%q is not a size: %w", s, err)
	}
	shift := map[string]int{"": 0, "b": 0, "B": 0, "k": 10, "K": 10, "m": 20, "M": 20, "g": 30, "G": 30}[parts[2]]
	if number > math.MaxInt64>>shift {
		return 0, fmt.Errorf("%q is too large a size", s)
	}
	return number << shift, nil
}
