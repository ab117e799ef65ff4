package jsontext

import (
	"cmp"
	"strconv"
	"strings"
)

// beyond limits the exponents in computations. A number with a larger exponent is equal
// only to an identical text, and [CompareNumbers] considers all such numbers of a sign
// equal.
const beyond = 1 << 60

// decimal is digits × 10^exponent.
type decimal struct {
	negative bool
	digits   string // without leading and trailing zeros; empty for 0
	exponent int64
}

// parseNumber parses the text of a number without losing digits and without expanding
// exponents.
func parseNumber(n string) decimal {
	mantissa, power := n, int64(0)
	if i := strings.IndexAny(n, "eE"); i >= 0 {
		mantissa = n[:i]
		power, _ = strconv.ParseInt(n[i+1:], 10, 64) // out of range gives the nearest
		power = min(max(power, -beyond), beyond)
	}
	unsigned, negative := strings.CutPrefix(mantissa, "-")
	whole, fraction, _ := strings.Cut(unsigned, ".")
	digits := strings.TrimLeft(whole+fraction, "0") // no copy where there is no fraction
	if digits == "" {
		return decimal{}
	}
	significant := strings.TrimRight(digits, "0")
	if power > -beyond && power < beyond {
		power += int64(len(digits) - len(significant) - len(fraction))
	}
	return decimal{negative, significant, power}
}

// AppendNumberForm appends a JSON number to out as digits and a power of ten, so that 1,
// 1.0 and 10e-1 have the same form.
func AppendNumberForm(out []byte, n string) []byte {
	d := parseNumber(n)
	switch {
	case d.digits == "":
		return append(out, '0')
	case d.isBeyond():
		return append(out, n...)
	case d.negative:
		out = append(out, '-')
	}
	return strconv.AppendInt(append(append(out, d.digits...), 'e'), d.exponent, 10)
}

// sameNumber reports whether a and b have the same form; see [AppendNumberForm].
func sameNumber(a, b string) bool {
	if a == b {
		return true
	}
	left, right := parseNumber(a), parseNumber(b)
	return left == right && !left.isBeyond()
}

// CompareNumbers returns a negative number if a < b, 0 if a == b, and a positive number if
// a > b.
func CompareNumbers(a, b string) int {
	left, right := parseNumber(a), parseNumber(b)
	if c := cmp.Compare(left.sign(), right.sign()); c != 0 {
		return c
	}
	return left.sign() * left.compareSize(right)
}

func (d decimal) isBeyond() bool { return d.exponent <= -beyond || d.exponent >= beyond }

func (d decimal) sign() int {
	switch {
	case d.digits == "":
		return 0
	case d.negative:
		return -1
	}
	return 1
}

// compareSize compares absolute values.
func (d decimal) compareSize(other decimal) int {
	if d.exponent == other.exponent && d.isBeyond() {
		return 0
	}
	if c := cmp.Compare(d.exponent+int64(len(d.digits)), other.exponent+int64(len(other.digits))); c != 0 {
		return c
	}
	return strings.Compare(d.digits, other.digits) // both start at the same power of ten
}

// MaxDigits is the maximum number of digits of a number that is not [IsHuge].
const MaxDigits = 1000

// IsHuge reports whether computing with a JSON number, for example as a fraction, is
// expensive: it has more than [MaxDigits], or would have without its exponent.
func IsHuge(n string) bool {
	if len(n) > MaxDigits {
		return true
	}
	i := strings.IndexAny(n, "eE")
	if i < 0 {
		return false
	}
	exponent, err := strconv.Atoi(n[i+1:])
	return err != nil || exponent > MaxDigits || exponent < -MaxDigits
}
